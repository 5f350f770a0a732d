package celenv

import (
	"errors"

	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/kubeversion"

	"fmt"

	"github.com/google/cel-go/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// Compiler compiles the expressions of one rule, which share their variables.
type Compiler struct {
	declared  Declarations
	env       *cel.Env
	mapType   *apiservercel.DeclType // the type of `variables`; nil until there is a variable
	planner   *planner
	variables *Variables
	alone     bool     // its plans are not shared
	fields    []string // the names of all fields of the object, if they are known
	allowance *compilecost.Allowance
	reads     reads
	objects   objects
}

// NewCompiler returns a Compiler without variables.
func NewCompiler(d Declarations) *Compiler {
	return &Compiler{declared: d, env: d.env(), planner: plannerOf(d), variables: NewVariables(d)}
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
		extended, err := withVariables(c.env, c.mapType)
		if err != nil {
			return err
		}
		c.env = extended
		c.variables.Declare(c.mapType)
	}
	x, checked, err := c.compile(expression, Any)
	var output *cel.Type
	if checked != nil {
		output = checked.OutputType()
	}
	c.reads.variable(name, checked)
	c.objects.find(c.declared, checked)
	c.mapType.Fields[name] = apiservercel.NewDeclField(name, declType(output), true, nil, nil)
	c.variables.Add(name, expression, x, err)
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
		c.objects.find(c.declared, checked)
	}
	return x, err
}

// compile compiles an expression, and also returns its checked form if it can be evaluated. A panic of the library becomes a mistake in the
// expression.
func (c *Compiler) compile(expression string, results ...Result) (_ *Expression, checked *cel.Ast, err error) {
	defer func() {
		if r := recover(); r != nil {
			checked, err = nil, fmt.Errorf("the expression cannot be compiled: the CEL library panics: %v", r)
		}
	}()
	checked, err = typed(c.env, expression, c.allowance)
	if mistake := (*CompileError)(nil); errors.As(err, &mistake) {
		mistake.Since, mistake.Server = c.since(expression), c.declared.Server
	}
	if err != nil {
		return nil, nil, err
	}
	if err := hasType(c.declared.Kind, checked.OutputType(), results...); err != nil {
		return nil, nil, err
	}
	x, err := c.variables.Compile(c.planner, c.env, expression, checked.NativeRep(), ofObject, c.alone)
	if err != nil {
		return nil, nil, fmt.Errorf("program instantiation failed: %w", err)
	}
	return x, checked, nil
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
	loose, err := c.declared.loose(server)
	if err != nil {
		return false
	}
	_, err = typed(loose, expression, c.allowance)
	return err == nil
}
