package celenv

import (
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/kubeversion"

	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// Result is a type that the value of an expression may have.
type Result uint8

// The types of results. Dyn is the type of values that depend only on the object, such as its fields; Any allows all types. Object and
// JSONPatches are the types of mutations, Strings and Dyns are lists, HTTPResponse and EnvoyResponse are answers to check requests, and Map
// is any map with texts as keys.
const (
	Bool Result = iota
	String
	Null
	Dyn
	Any
	Object
	JSONPatches
	Strings
	Dyns
	HTTPResponse
	EnvoyResponse
	Map
)

var resultTypes = [...]*cel.Type{
	Bool: cel.BoolType, String: cel.StringType, Null: cel.NullType, Dyn: cel.DynType, Any: cel.AnyType,
	Object: objectType, JSONPatches: jsonPatchList, Strings: cel.ListType(cel.StringType), Dyns: cel.ListType(cel.DynType),
	HTTPResponse: httpResponse, EnvoyResponse: envoyResponse,
	Map: mapResult,
}

var mapResult = cel.MapType(cel.StringType, cel.AnyType)

// Expression is a compiled expression. It is immutable and safe for concurrent use.
type Expression struct {
	text string
	*planned
}

// Compiler compiles the expressions of one rule, which share their variables.
type Compiler struct {
	declared  Declarations
	env       *cel.Env
	mapType   *apiservercel.DeclType // the type of `variables`; nil until there is a variable
	planner   *planner
	variables *Variables
	signature [sha256.Size]byte // a digest of the variables
	alone     bool              // its plans are not shared
	fields    []string          // the names of all fields of the object, if they are known
	allowance *compilecost.Allowance
	reads     reads
	objects   objects
}

// NewCompiler returns a Compiler without variables.
func NewCompiler(d Declarations) *Compiler {
	return &Compiler{declared: d, env: d.env(), planner: d.planner(), variables: &Variables{declared: d}}
}

// Within makes the Compiler charge an Allowance for its expressions. An expression that costs too much results in a *compilecost.Error.
func (c *Compiler) Within(a *compilecost.Allowance) *Compiler {
	c.allowance = a
	return c
}

// Variables returns the variables compiled so far, for evaluations.
func (c *Compiler) Variables() *Variables { return c.variables }

// Variable compiles a variable. Expressions that are compiled later can use it as variables.⟨name⟩, with its type. A
// variable that does not compile is declared with any type, so that its mistake is reported only once.
func (c *Compiler) Variable(name, expression string) error {
	if err := c.allowance.CEL(expression); err != nil {
		return err
	}
	if c.mapType == nil {
		c.mapType = apiservercel.NewObjectType(variablesType, map[string]*apiservercel.DeclField{})
		env, err := withTypes(c.env, []*apiservercel.DeclType{c.mapType}, cel.Variable(varVariables, c.mapType.CelType()))
		if err != nil {
			return err
		}
		c.env = env
		c.variables.mapType = c.mapType
	}
	x, checked, err := c.compile(expression, Any)
	var output *cel.Type
	if checked != nil {
		output = checked.OutputType()
	}
	c.reads.variable(name, checked)
	c.objects.take(c.declared, checked)
	c.sign(name, expression)
	c.mapType.Fields[name] = apiservercel.NewDeclField(name, declType(output), true, nil, nil)
	if c.variables.index == nil {
		c.variables.index = map[string]int{}
	}
	c.variables.index[name] = len(c.variables.list)
	c.variables.list = append(c.variables.list, variable{name, x, err})
	return err
}

// Compile compiles an expression whose result must have one of the types. The error is a *CompileError or an
// *compilecost.Error, or reports the wrong type.
func (c *Compiler) Compile(expression string, results ...Result) (*Expression, error) {
	if err := c.allowance.CEL(expression); err != nil {
		return nil, err
	}
	x, checked, err := c.compile(expression, results...)
	if checked != nil {
		c.reads.expression(checked)
		c.objects.take(c.declared, checked)
	}
	return x, err
}

// Issue is one mistake in an expression.
type Issue struct {
	Line, Column int // Line counts from 1 and Column from 0, as in the library
	Message      string
}

// CompileError lists the mistakes of an expression.
type CompileError struct {
	Issues []Issue
	// Since is the oldest version of Kubernetes in which the expression compiles, if it is newer than the server's; otherwise 0.
	Since kubeversion.Minor
	// Server is the version with which it was compiled.
	Server kubeversion.Minor
	text   string // the output of the library, with the source and carets
}

// Error returns the text that the API server shows.
func (e *CompileError) Error() string { return "compilation failed: " + e.text }

// Newer returns how to correct an expression that needs a newer version of Kubernetes; empty for other mistakes.
func (e *CompileError) Newer() string {
	if e.Since == 0 {
		return ""
	}
	return fmt.Sprintf("the expression needs functions that exist since Kubernetes %s; the API server has %s", e.Since, e.Server)
}

// Text returns the output of the library: each mistake with the source and a caret.
func (e *CompileError) Text() string { return e.text }

// Summary returns the reason why an expression does not compile, on one line.
func Summary(err error) string {
	if e := (*CompileError)(nil); errors.As(err, &e) {
		return e.summary()
	}
	return err.Error()
}

func (e *CompileError) summary() string {
	out := make([]string, len(e.Issues))
	for i, x := range e.Issues {
		out[i] = fmt.Sprintf("%d:%d: %s", x.Line, x.Column+1, x.Message)
	}
	return strings.Join(out, "; ")
}

// compile compiles an expression, and also returns its checked form if it can be evaluated. A panic of the library becomes a mistake in the
// expression.
func (c *Compiler) compile(expression string, results ...Result) (_ *Expression, checked *cel.Ast, err error) {
	defer func() {
		if r := recover(); r != nil {
			checked, err = nil, fmt.Errorf("the expression cannot be compiled: the CEL library panics: %v", r)
		}
	}()
	parsed, err := parse(c.env, expression, c.allowance)
	if err != nil {
		return nil, nil, err
	}
	checked, issues := check(c.env, parsed)
	if issues != nil && issues.Err() != nil {
		mistake := compileError(issues)
		mistake.Since, mistake.Server = c.since(expression), c.declared.Server
		return nil, nil, mistake
	}
	if err := hasType(checked.OutputType(), results, c.declared.Kind.words()); err != nil {
		return nil, nil, err
	}
	plan, err := c.plan(expression, checked.NativeRep())
	if err != nil {
		return nil, nil, fmt.Errorf("program instantiation failed: %w", err)
	}
	return &Expression{expression, plan}, checked, nil
}

// since returns the oldest version in which an expression that does not compile does; 0 if there is none.
func (c *Compiler) since(expression string) kubeversion.Minor {
	server := c.declared.Server.Known()
	if server == kubeversion.Newest || c.compiles(server, expression) {
		return 0 // without types of variables it compiles: the mistake is about a type
	}
	for _, v := range changes {
		if v > server && c.compiles(v, expression) {
			return v
		}
	}
	return 0
}

// compiles reports whether an expression compiles with the functions of a version. Variables and fields may have any type.
func (c *Compiler) compiles(server kubeversion.Minor, expression string) bool {
	env, err := c.declared.loose(server)
	if err != nil {
		return false
	}
	parsed, err := parse(env, expression, c.allowance)
	if err != nil {
		return false
	}
	_, issues := check(env, parsed)
	return issues.Err() == nil
}

// looseEnvs holds the environments of Declarations.loose, built on first use.
var looseEnvs sync.Map // Declarations → func() (*cel.Env, error)

// loose returns the environment of a version, in which variables of the policy may have any type.
func (d Declarations) loose(server kubeversion.Minor) (*cel.Env, error) {
	d.Server = environmentOf(server)
	made, known := looseEnvs.Load(d)
	if !known {
		made, _ = looseEnvs.LoadOrStore(d, sync.OnceValues(func() (*cel.Env, error) {
			return extended(d.env(), cel.Variable(varVariables, cel.DynType))
		}))
	}
	return made.(func() (*cel.Env, error))()
}

func compileError(issues *cel.Issues) *CompileError {
	e := &CompileError{text: issues.String()}
	for _, x := range issues.Errors() {
		e.Issues = append(e.Issues, Issue{Line: x.Location.Line(), Column: x.Location.Column(), Message: x.Message})
	}
	return e
}

// typeWords formats the error for a wrong type.
type typeWords func(wanted []*cel.Type, got *cel.Type) error

// words returns the function for the API server's text, or for Kyverno's.
func (k Kind) words() typeWords {
	if k == Native {
		return serverWords
	}
	return func(wanted []*cel.Type, _ *cel.Type) error {
		if response := wanted[0]; response == httpResponse || response == envoyResponse { // the answer may also be null
			return fmt.Errorf("rule response output is expected to be of type %s", response.TypeName())
		}
		if wanted[0] == mapResult {
			return errors.New("output type must be a map")
		}
		if len(wanted) == 1 {
			return fmt.Errorf("output is expected to be of type %s", wanted[0].TypeName())
		}
		names := make([]string, len(wanted))
		for i, t := range wanted {
			if names[i] = t.TypeName(); len(t.Parameters()) > 0 {
				names[i] = t.String()
			}
		}
		return fmt.Errorf("output is expected to be either of type %s", strings.Join(names, " or "))
	}
}

func serverWords(wanted []*cel.Type, got *cel.Type) error {
	if len(wanted) == 1 {
		return fmt.Errorf("must evaluate to %v but got %v", wanted[0].String(), got.String())
	}
	return fmt.Errorf("must evaluate to one of %v but got %v", wanted, got.String())
}

func hasType(output *cel.Type, results []Result, words typeWords) error {
	wanted := make([]*cel.Type, len(results))
	for i, r := range results {
		wanted[i] = resultTypes[r]
		if output.IsExactType(wanted[i]) || cel.AnyType.IsExactType(wanted[i]) {
			return nil
		}
		if wanted[i] == mapResult && output.Kind() == types.MapKind && output.Parameters()[0].IsAssignableType(cel.StringType) {
			return nil
		}
	}
	return words(wanted, output)
}

var declTypes = map[*cel.Type]*apiservercel.DeclType{
	cel.AnyType: apiservercel.AnyType, cel.BoolType: apiservercel.BoolType, cel.BytesType: apiservercel.BytesType,
	cel.DoubleType: apiservercel.DoubleType, cel.DurationType: apiservercel.DurationType, cel.IntType: apiservercel.IntType,
	cel.NullType: apiservercel.NullType, cel.StringType: apiservercel.StringType,
	cel.TimestampType: apiservercel.TimestampType, cel.UintType: apiservercel.UintType,
}

// declType returns the type of a variable for the expressions that use it. A type that cannot be declared, or is nested too deeply, becomes
// dyn.
func declType(t *cel.Type) *apiservercel.DeclType {
	if t == nil || typeNesting(t) > maxTypeNesting {
		return apiservercel.DynType
	}
	if d := declTypes[t]; d != nil {
		return d
	}
	if t.HasTrait(traits.ContainerType) && t.HasTrait(traits.IndexerType) {
		switch p := t.Parameters(); len(p) {
		case 1:
			return apiservercel.NewListType(declType(p[0]), -1)
		case 2:
			return apiservercel.NewMapType(declType(p[0]), declType(p[1]), -1)
		}
	}
	return apiservercel.DynType
}
