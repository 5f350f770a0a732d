package run

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/trace"
)

// Input holds the values that expressions read. They are decoded JSON and must not be changed.
type Input struct {
	Object, OldObject, Params any
	// Trigger holds the objects of the request, for the variable trigger, where Object is another one.
	Trigger Trigger
	// Source provides values that only some expressions read. If it is nil, these values are null, and the requester has no rights.
	Source Source
	// Exceptions are the images and values that partial exceptions allow, for the variable exceptions.
	Exceptions Exceptions
	// Images are the images of the object, as lists of texts by group, for the variable images. Reference is the image reference that is
	// evaluated, for the variable ref.
	Images    map[string]any
	Reference string
	// Attestors and Attestations are those of the policy, for the variables attestors and attestations; each name maps to itself.
	// Verifier returns what answers queries about them, for one evaluation; nil if nothing can be verified.
	Attestors, Attestations map[string]any
	Verifier                func(TextOf) env.Verifier
	// Access is what functions of libraries may use.
	env.Access
	// Memo is shared with the other evaluations of the same request; nil if there are none.
	Memo *Memo
	// Trace records the values of expressions; nil records nothing.
	Trace *trace.Log
}

// Source provides the values that are expensive to compute. Each method is called on first use, at most once in an evaluation.
type Source interface {
	// Request returns the variable request.
	Request() (any, error)
	// Namespace returns the variable namespaceObject.
	Namespace() (any, error)
	// Authorizer returns the variable authorizer, or nil if the requester's rights are unknown.
	Authorizer() *env.Authorizer
}

// Trigger holds the objects of a request.
type Trigger struct{ Object, OldObject any }

// Exceptions are the images and values allowed by exceptions that partly relax a policy.
type Exceptions struct{ AllowedImages, AllowedValues []string }

// Evaluate starts an evaluation. It computes variables at most once, on first use. Only one goroutine may use it.
func (v *Variables) Evaluate(ctx context.Context, in *Input, budget int64) *Evaluation {
	e := in.Memo.evaluation()
	e.in, e.variables = in, v
	e.Scope = env.Scope{Meter: price.NewMeter(ctx, budget), Access: &in.Access, Namespaced: v.declared.Namespaced}
	if in.Verifier != nil {
		e.Verifier = in.Verifier(e.textOf)
	}
	return e
}

// Evaluation is one evaluation of the expressions of a rule.
type Evaluation struct {
	env.Scope
	in        *Input
	variables *Variables
	sizes     price.Sizes
	arguments map[node][]ref.Val // the field values of structs under construction

	values []ref.Val // the values of the variables computed so far
	scopes *element  // unused scopes of loops, for reuse

	request, namespace, lazies any
	haveRequest, haveNamespace bool
	authorizer                 *env.Authorizer
}

// Rebind changes the object for the expressions that are evaluated from now on. Variables that already have a value keep it.
func (e *Evaluation) Rebind(object any) {
	in := *e.in
	in.Object = object
	e.in = &in
	e.sizes.Reset()
}

// Bool evaluates an expression of type Bool.
func (e *Evaluation) Bool(x *Expression) (bool, error) {
	v, err := e.Value(x)
	if err != nil {
		return false, err
	}
	return v == types.True, nil
}

// Text evaluates an expression of type String or Null. ok is false if the value is not a text.
func (e *Evaluation) Text(x *Expression) (text string, ok bool, err error) {
	v, err := e.Value(x)
	if err != nil {
		return "", false, err
	}
	text, ok = v.Value().(string)
	return text, ok, nil
}

// Size returns the number of values in the result of an expression, with long texts counted as several.
func (e *Evaluation) Size(v ref.Val) int { return e.sizes.Of(v) }

// Value evaluates an expression of any type. The number of values in lists and maps of the result is limited by the guards.
func (e *Evaluation) Value(x *Expression) (ref.Val, error) {
	e.Clear()
	v, err := e.run(x)
	outOfUnits := price.ErrOutOfBudget
	if e.variables.declared.Kind != env.Native {
		outOfUnits = price.ErrCallLimit
	}
	if reason := e.Reason(outOfUnits); reason != nil {
		return nil, reason
	}
	switch {
	case err == nil:
		return v, nil
	case e.Context().Err() != nil:
		return nil, e.Context().Err()
	}
	return nil, &env.EvaluationError{Expression: x.text, Err: err}
}

// expressionSteps are those of beginning to evaluate an expression.
const expressionSteps = 150

// run evaluates an expression. Its cost counts towards the limit of the expression and that of the rule.
func (e *Evaluation) run(x *Expression) (ref.Val, error) {
	if e.Failure() != nil {
		return nil, e.Failure()
	}
	if e.Ended() {
		return nil, price.ErrOutOfBudget
	}
	around := e.Begin()
	e.Spend(x.nodes)
	e.Charge(expressionSteps)
	if e.in.Trace != nil {
		v, parts, err := e.explained(x)
		e.End(around)
		e.in.Trace.Expression(x.text, shown(v), err, parts)
		return v, err
	}
	v, err := x.evaluate(e)
	e.End(around)
	return v, err
}

// evaluate converts error values and panics in library functions to errors.
func (x *Expression) evaluate(e *Evaluation) (v ref.Val, err error) {
	defer func() {
		if r := recover(); r != nil {
			v, err = nil, fmt.Errorf("internal error: %v", r)
		}
	}()
	frame, err := interpreter.NewExecutionFrame(e)
	if err != nil {
		return nil, err
	}
	defer frame.Close()
	v = x.root.Eval(frame)
	if failure, ok := v.(*types.Err); ok {
		return v, failure
	}
	if e.Ended() { // a loop that was interrupted has some value
		return nil, errors.New(textInterrupted)
	}
	return v, nil
}

// TextOf evaluates an expression of the same rule. Its value must be a text.
type TextOf func(*Expression) (string, error)

// textOf implements TextOf.
func (e *Evaluation) textOf(x *Expression) (string, error) {
	v, err := e.run(x)
	if err != nil {
		return "", &env.EvaluationError{Expression: x.text, Err: err}
	}
	s, ok := v.(types.String)
	if !ok {
		return "", &env.MistakeError{Reason: fmt.Sprintf("an expression of an attestor returns %s instead of a text", v.Type().TypeName())}
	}
	return string(s), nil
}

// ResolveName implements the library's Activation.
func (e *Evaluation) ResolveName(name string) (any, bool) {
	switch name {
	case plugincel.ObjectVarName:
		return e.in.Object, true
	case plugincel.OldObjectVarName:
		if e.variables.declared.Kind == env.Deleting { // the variable is declared but never has a value
			return nil, false
		}
		return e.in.OldObject, true
	case plugincel.ParamsVarName:
		return e.in.Params, true
	case plugincel.RequestVarName:
		if e.variables.declared.Kind == env.Deleting {
			return nil, false
		}
		return e.resolve(&e.request, &e.haveRequest, Source.Request)
	case plugincel.NamespaceVarName:
		return e.resolve(&e.namespace, &e.haveNamespace, Source.Namespace)
	case plugincel.AuthorizerVarName:
		if a := e.rights(); a != nil {
			return a.Value(), true
		}
		return e.fail(errNoAuthorizer)
	case plugincel.RequestResourceAuthorizerVarName:
		if a := e.rights(); a != nil {
			return a.RequestResource(), true
		}
		return e.fail(errNoAuthorizer)
	case env.VarTrigger:
		return map[string]any{plugincel.ObjectVarName: e.in.Trigger.Object, plugincel.OldObjectVarName: e.in.Trigger.OldObject}, true
	case env.VarExceptions:
		return map[string]any{"allowedImages": anyList(e.in.Exceptions.AllowedImages), "allowedValues": anyList(e.in.Exceptions.AllowedValues)}, true
	case env.VarImages:
		return known(e.in.Images), true
	case env.VarReference:
		return e.in.Reference, true
	case env.VarAttestors:
		return known(e.in.Attestors), true
	case env.VarAttestations:
		return known(e.in.Attestations), true
	case env.VarVariables:
		if e.lazies == nil {
			e.lazies = e.variables.lazy(e)
		}
		return e.lazies, true
	}
	return nil, false
}

// known returns m, or an empty map for nil.
func known(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

func anyList(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}

// Parent implements the library's Activation.
func (e *Evaluation) Parent() interpreter.Activation { return nil }

// rights returns the requester's rights, or nil if they are unknown.
func (e *Evaluation) rights() *env.Authorizer {
	if e.authorizer == nil && e.in.Source != nil {
		e.authorizer = e.in.Source.Authorizer()
	}
	return e.authorizer
}

func (e *Evaluation) resolve(to *any, have *bool, load func(Source) (any, error)) (any, bool) {
	if !*have && e.in.Source != nil {
		v, err := load(e.in.Source)
		if err != nil {
			return e.fail(err)
		}
		*to = v
	}
	*have = true
	return *to, true
}

func (e *Evaluation) fail(err error) (any, bool) {
	e.Meter.Fail(err)
	return types.WrapErr(err), true
}

var errNoAuthorizer = errors.New("the rights of the requester are not known here")

// variable returns the value of a variable, which it computes on first use.
func (e *Evaluation) variable(i int) ref.Val {
	if len(e.values) == 0 {
		n := len(e.variables.list)
		e.values = slices.Grow(e.values, n)[:n]
	}
	if v := e.values[i]; v != nil {
		return v
	}
	x := &e.variables.list[i]
	e.values[i] = dependsOnItself // a cycle is possible through `variables` as a whole
	e.values[i] = e.compute(x)
	return e.values[i]
}

var dependsOnItself = types.NewErr("a variable depends on itself")

func (e *Evaluation) compute(x *variable) ref.Val {
	native := e.variables.declared.Kind == env.Native
	if x.err != nil {
		return types.NewErr("composited variable %q fails to compile: %v", x.name, x.err)
	}
	if v := e.recall(x.expression); v != nil {
		return v
	}
	before := e.Work
	v, err := e.run(x.expression)
	switch {
	case err != nil && native:
		return types.NewErr("composited variable %q fails to evaluate: %v", x.name, err)
	case err != nil:
		return types.WrapErr(err)
	}
	if v = limitValues(v, e); !types.IsError(v) {
		e.remember(x.expression, v, before)
	}
	return v
}
