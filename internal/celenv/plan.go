package celenv

import (
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/interpreter"
)

// planner converts checked expressions to plans that can be evaluated. Unlike the library's Program, it has one table of
// functions for all expressions of an environment, and does not use the library's accounting: our own nodes charge the costs
// (see guard.go).
type planner struct {
	functions interpreter.Dispatcher
	declared  Declarations
}

// planners holds one planner for each environment, created on first use.
var planners sync.Map // Declarations → func() *planner

func (d Declarations) planner() *planner {
	d.Server = environmentOf(d.Server)
	made, known := planners.Load(d)
	if !known {
		made, _ = planners.LoadOrStore(d, sync.OnceValue(func() *planner {
			p, err := newPlanner(d.env(), d)
			if err != nil { // the error depends only on the libraries, and the tests build every environment
				panic("celenv: the functions of the environment: " + err.Error())
			}
			return p
		}))
	}
	return made.(func() *planner)()
}

func newPlanner(env *cel.Env, d Declarations) (*planner, error) {
	p := &planner{functions: interpreter.NewDispatcher(), declared: d}
	for _, f := range env.Functions() {
		bindings, err := f.Bindings()
		if err != nil {
			return nil, err
		}
		if err := p.functions.Add(bindings...); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// planning holds the information that decorators need about the expression that is being planned.
type planning struct {
	*planner
	checked   *ast.AST
	locals    map[string]bool // variables of macros
	variables map[string]int  // indexes of the rule's variables
}

// plan converts a checked expression to a plan. The functions in around change how nodes are created. An error concerns a constant in the
// expression.
func (p *planner) plan(env *cel.Env, checked *ast.AST, variables map[string]int, around ...func(interpreter.InterpretableDecorator) interpreter.InterpretableDecorator) (interpreter.Interpretable, error) {
	in := &planning{planner: p, checked: checked, locals: locals(checked), variables: variables}
	values, types := adapter{env.CELTypeAdapter()}, env.CELTypeProvider()
	loops := steps(checked)
	checks := in.checks(loops)
	for _, f := range around {
		checks = f(checks)
	}
	if len(around) == 0 { // decorators that record the values of parts need the library's loops
		checks = in.quantified(loops, checks)
	}
	attributes := interpreter.NewAttributeFactory(env.Container, values, types)
	i := interpreter.NewInterpreter(p.functions, env.Container, types, values, attributes)
	return i.NewInterpretable(in.checked,
		interpreter.Optimize(),
		interpreter.CustomDecorator(checks),
	)
}

// variable connects a path that begins with `variables.name` to that variable.
func (in *planning) variable(p *path) {
	if p.root != rootOther || strings.TrimPrefix(p.name, ".") != varVariables || in.locals[p.name] || p.other || len(p.steps) == 0 || p.steps[0].optional || p.tests && len(p.steps) == 1 {
		return
	}
	if i, known := in.variables[p.steps[0].name]; known {
		p.root, p.index = rootVariable, i
	}
}
