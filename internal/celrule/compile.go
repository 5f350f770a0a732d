package celrule

import (
	"errors"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"ephor.invalid/ephor/internal/cel/compiler"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/reads"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/kubeversion"
)

// Compiler compiles the expressions of one rule, which share their variables. It collects all mistakes; an expression with a mistake
// is nil.
type Compiler struct {
	Diags diag.List

	env    *compiler.Compiler
	native bool // mistakes are reported one by one, and a mistake in a message is a warning
	open   bool // annotations may have a type that is unknown at compile time; the evaluation checks it
	over   bool // it was reported that the policy has too many expressions
}

// own is the version of Kubernetes whose functions Ephor's own policies have on every server, as Kyverno's do.
const own kubeversion.Minor = 34

// New returns a Compiler that charges what it compiles to the allowance of its policy; nil for no bound. Unless d names a version, expressions
// have the functions of the API server for which the policy is compiled, and at least those that Ephor's own policies have on every server.
func New(d env.Declarations, a *compilecost.Allowance) *Compiler {
	if d.Server == 0 {
		d.Server = a.Version().AtLeast(own)
	}
	return &Compiler{env: compiler.New(d).Within(a), native: d.Kind == env.Native, open: d.Kind == env.Native || d.Kind == env.Generating}
}

// Named returns the variables compiled so far, for evaluations.
func (c *Compiler) Named() *run.Variables { return c.env.Variables() }

// Objects returns the objects that the expressions of a generating policy name.
func (c *Compiler) Objects() []reads.NamedObject { return c.env.Objects() }

// Variables compiles variables in order. Expressions compiled after them can use them.
func (c *Compiler) Variables(in []admissionregistrationv1.Variable, path string) {
	for i, v := range in {
		at := path + "[" + strconv.Itoa(i) + "]"
		if v.Name == "" {
			c.Diags.Required(at+".name", "a variable needs a name")
		}
		c.mistake(c.env.Variable(v.Name, v.Expression), v.Expression, at+".expression")
	}
}

// Conditions compiles match conditions.
func (c *Compiler) Conditions(in []admissionregistrationv1.MatchCondition, path string) Conditions {
	var out Conditions
	for i, x := range in {
		out = append(out, c.Expression(x.Expression, path+"["+strconv.Itoa(i)+"].expression", typecheck.Bool))
	}
	return out
}

// Validation compiles an expression that must hold, with its messages. The result of its messageExpression may have one of the
// types.
func (c *Compiler) Validation(v *admissionregistrationv1.Validation, path string, messages ...typecheck.Result) Validation {
	out := Validation{
		Source: strings.TrimSpace(v.Expression), Message: strings.TrimSpace(v.Message),
		expression: c.Expression(v.Expression, path+".expression", typecheck.Bool),
	}
	if !c.native {
		out.Message = v.Message
	}
	if v.MessageExpression != "" {
		out.messageOf = c.message(v.MessageExpression, path+".messageExpression", messages)
	}
	return out
}

// message compiles an expression for a message. In the API server's policies a mistake in it only changes the text of a failure, so
// it is a warning.
func (c *Compiler) message(text, path string, results []typecheck.Result) *run.Expression {
	before := len(c.Diags)
	x := c.Expression(text, path, results...)
	for i := before; c.native && i < len(c.Diags); i++ {
		c.Diags[i].Severity = diag.Warning
		c.Diags[i].Hint = "the expression is not used"
	}
	return x
}

// Annotation compiles an audit annotation.
func (c *Compiler) Annotation(a *admissionregistrationv1.AuditAnnotation, path string) Annotation {
	results := []typecheck.Result{typecheck.String, typecheck.Null}
	if c.open {
		results = append(results, typecheck.Dyn)
	}
	qualified := !strings.Contains(a.Key, "/") && len(validation.IsQualifiedName(a.Key)) == 0
	return Annotation{a.Key, c.Expression(a.ValueExpression, path+".valueExpression", results...), qualified}
}

// Expression compiles one expression whose result must have one of the types.
func (c *Compiler) Expression(text, path string, results ...typecheck.Result) *run.Expression {
	x, err := c.Compile(text, results...)
	c.mistake(err, text, path)
	return x
}

// mistake reports why an expression does not compile: either each mistake with its place in the expression, or all of them together
// with the expression, as the API server reports mistakes in fields.
func (c *Compiler) mistake(err error, text, path string) {
	if err == nil {
		return
	}
	if over := (*compilecost.Error)(nil); errors.As(err, &over) {
		if !c.over { // once for each rule
			c.over = true
			c.Diags.Errorf(path, "%v", err)
			c.Diags.Hint("split the policy, or write common parts as variables")
		}
		return
	}
	var mistakes *typecheck.CompileError
	compiles := !errors.As(err, &mistakes)
	before := len(c.Diags)
	defer func() {
		for i := before; !compiles && mistakes.Since != 0 && i < len(c.Diags); i++ {
			c.Diags[i].Hint, c.Diags[i].Newer = mistakes.Newer(), true
		}
	}()
	if !c.native {
		why := err.Error()
		if !compiles {
			why = mistakes.Text()
		}
		c.Diags.Invalid(path, text, why)
		c.Diags.Hint("%s", hint(text, path, why))
		return
	}
	if compiles {
		c.Diags.Errorf(path, "%v", err)
		c.Diags.Hint("%s", hint(text, path, err.Error()))
		return
	}
	for _, x := range mistakes.Issues {
		c.Diags.Errorf(path, "%s (line %d, column %d of the expression)", x.Message, x.Line, x.Column+1)
		c.Diags.Hint("%s", hint(text, path, x.Message))
	}
}

// Compile compiles an expression; the caller reports its mistakes. A panic of the compiler is a mistake, too: the policy then errs, where
// without it the policy would be missing.
func (c *Compiler) Compile(text string, results ...typecheck.Result) (x *run.Expression, err error) {
	defer func() {
		if v := recover(); v != nil {
			x, err = nil, diag.Panicked(v)
		}
	}()
	return c.env.Compile(text, results...)
}
