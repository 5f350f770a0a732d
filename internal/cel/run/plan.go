package run

import (
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/interpreter"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/cel/values"
)

// Planner converts checked expressions to plans that can be evaluated. Unlike the library's Program, it has one table of
// functions for all expressions of an environment, and does not use the library's accounting: our own nodes charge the costs
// (node.go).
type Planner struct {
	functions interpreter.Dispatcher
	declared  env.Declarations
}

// planners holds one planner for each environment, created on first use.
var planners sync.Map // Declarations → func() *planner

// PlannerOf returns the planner for an environment.
func PlannerOf(d env.Declarations) *Planner {
	d.Server = env.EnvironmentOf(d.Server)
	made, known := planners.Load(d)
	if !known {
		made, _ = planners.LoadOrStore(d, sync.OnceValue(func() *Planner {
			p, err := newPlanner(d.Env(), d)
			if err != nil { // the error depends only on the libraries, and the tests build every environment
				panic("cel/run: the functions of the environment: " + err.Error())
			}
			return p
		}))
	}
	return made.(func() *Planner)()
}

func newPlanner(of *cel.Env, d env.Declarations) (*Planner, error) {
	p := &Planner{functions: interpreter.NewDispatcher(), declared: d}
	for _, f := range of.Functions() {
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
	*Planner
	checked   *ast.AST
	locals    map[string]bool // variables of macros
	variables map[string]int  // indexes of the rule's variables
}

// plan converts a checked expression to a plan. A recorder, which may be nil, keeps the values of its parts. An error concerns a constant in
// the expression.
func (p *Planner) plan(of *cel.Env, checked *ast.AST, variables map[string]int, record *recorder) (interpreter.Interpretable, error) {
	in := &planning{Planner: p, checked: checked, locals: typecheck.Locals(checked), variables: variables}
	return in.plan(of, in.decorators(record))
}

// decorators returns what the library's planner does with each node, after it has planned the parts of the node, in this order.
func (in *planning) decorators(record *recorder) []interpreter.InterpretableDecorator {
	nodes := price.StepNodes(in.checked)
	list := []interpreter.InterpretableDecorator{
		// First: the planner hands over a path again for each of its members. The others expect it in the form of node.
		func(i interpreter.Interpretable) (interpreter.Interpretable, error) { return unrecorded(i), nil },
		// Our nodes replace the library's, so that all that follow wrap nodes that charge for their work.
		func(i interpreter.Interpretable) (interpreter.Interpretable, error) { return in.node(i), nil },
		// After node, whose constructors read the fields that this one keeps.
		in.remembering(),
		// Around everything that an iteration evaluates: an iteration is charged before its work.
		charging(nodes),
	}
	if record != nil {
		// Last: it keeps the values that the expression sees. The loops stay the library's: a quantifier skips nodes whose values are shown.
		return append(list, record.recorded)
	}
	// Last: a quantifier calls the range and the predicate of its loop in the form in which the others leave them.
	return append(list, in.quantified(nodes))
}

// plan calls the library's planner.
func (in *planning) plan(of *cel.Env, decorators []interpreter.InterpretableDecorator) (interpreter.Interpretable, error) {
	adapt, provider := values.Adapter{Next: of.CELTypeAdapter()}, of.CELTypeProvider()
	options := []interpreter.PlannerOption{interpreter.Optimize()}
	for _, d := range decorators {
		options = append(options, interpreter.CustomDecorator(d))
	}
	attributes := interpreter.NewAttributeFactory(of.Container, adapt, provider)
	return interpreter.NewInterpreter(in.functions, of.Container, provider, adapt, attributes).NewInterpretable(in.checked, options...)
}

// variable connects a path that begins with `variables.name` to that variable.
func (in *planning) variable(p *path) {
	if p.root != rootOther || strings.TrimPrefix(p.name, ".") != env.VarVariables || in.locals[p.name] || p.other || len(p.steps) == 0 || p.steps[0].optional || p.tests && len(p.steps) == 1 {
		return
	}
	if i, known := in.variables[p.steps[0].name]; known {
		p.root, p.index = rootVariable, i
	}
}
