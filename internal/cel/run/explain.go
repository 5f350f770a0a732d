package run

import (
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	"github.com/google/cel-go/parser"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/cel/values"
	"ephor.invalid/ephor/internal/trace"
)

// To explain an expression, it is compiled again for each evaluation, with nodes that keep the value of each part. Apart from
// that the evaluation is the same, and it runs once. Other evaluations share none of this.

// maxShownNesting is the maximum nesting of a value that is shown as JSON.
const maxShownNesting = 100

// maxExplained is the maximum number of parts of one expression in a trace.
const maxExplained = 60

// explained evaluates an expression and returns the values of its parts.
func (e *Evaluation) explained(x *Expression) (ref.Val, []trace.Part, error) {
	checked, plan, values, err := e.variables.recording(x.text)
	if err != nil { // the expression belongs to another environment, such as that of mutations
		v, err := x.evaluate(e)
		return v, nil, err
	}
	v, err := (&Expression{x.text, &planned{root: plan, nodes: x.nodes}}).evaluate(e)
	native := checked.NativeRep()
	w := explainer{values: values.last, info: native.SourceInfo(), locals: typecheck.Locals(native)}
	w.inside(native.Expr(), 0)
	return v, w.parts, err
}

// recording compiles an expression so that the values of its parts are kept.
func (v *Variables) recording(text string) (*cel.Ast, interpreter.Interpretable, *recorder, error) {
	tracking, err := env.Extended(v.declared.Env(), cel.EnableMacroCallTracking())
	if err != nil {
		return nil, nil, nil, err
	}
	if v.mapType != nil {
		if tracking, err = env.WithVariables(tracking, v.mapType); err != nil {
			return nil, nil, nil, err
		}
	}
	checked, err := typecheck.Check(tracking, text, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	values := &recorder{last: map[int64]ref.Val{}, loops: loopsOf(checked.NativeRep())}
	plan, err := PlannerOf(v.declared).plan(tracking, checked.NativeRep(), v.index, values)
	return checked, plan, values, err
}

// recorder keeps the last value of each part by its ID. Each iteration of a loop discards the values of the previous one.
type recorder struct {
	last  map[int64]ref.Val
	loops map[int64][]int64 // the parts of the step of each loop, by the ID of the step
}

// loopsOf returns the parts of loops.
func loopsOf(checked *ast.AST) map[int64][]int64 {
	out := map[int64][]int64{}
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.ComprehensionKind {
			return
		}
		step := e.AsComprehension().LoopStep()
		ast.PreOrderVisit(step, ast.NewExprVisitor(func(part ast.Expr) { out[step.ID()] = append(out[step.ID()], part.ID()) }))
	}))
	return out
}

// recorded is a decorator that makes a node keep its values. A path keeps its form, because the planner adds members to it.
func (r *recorder) recorded(i interpreter.Interpretable) (interpreter.Interpretable, error) {
	switch n := i.(type) {
	case interpreter.InterpretableConst, interpreter.InterpretableConstructor:
		return i, nil
	case interpreter.InterpretableAttribute:
		return &recordedAttribute{n, r}, nil
	}
	return &recorded{i, r}, nil
}

// unrecorded returns a node without its wrapper that keeps the values.
func unrecorded(i interpreter.Interpretable) interpreter.Interpretable {
	switch n := i.(type) {
	case *recorded:
		return n.Interpretable
	case *recordedAttribute:
		return n.InterpretableAttribute
	}
	return i
}

type recorded struct {
	interpreter.Interpretable
	to *recorder
}

// Exec implements the library's interface.
func (n *recorded) Exec(frame *interpreter.ExecutionFrame) ref.Val { return n.Eval(frame) }

// Eval implements the library's interface.
func (n *recorded) Eval(vars interpreter.Activation) ref.Val {
	for _, part := range n.to.loops[n.ID()] {
		delete(n.to.last, part)
	}
	v := n.Interpretable.Eval(vars)
	n.to.last[n.ID()] = v
	return v
}

type recordedAttribute struct {
	interpreter.InterpretableAttribute
	to *recorder
}

// Exec implements the library's interface.
func (n *recordedAttribute) Exec(frame *interpreter.ExecutionFrame) ref.Val { return n.Eval(frame) }

// Eval implements the library's interface.
func (n *recordedAttribute) Eval(vars interpreter.Activation) ref.Val {
	v := n.InterpretableAttribute.Eval(vars)
	n.to.last[n.ID()] = v
	return v
}

// explainer walks an expression and collects the parts that have a value. A part has none if another part decided and it was not
// evaluated. Inside a macro, the value is that of the last evaluated element.
type explainer struct {
	values map[int64]ref.Val
	info   *ast.SourceInfo
	locals map[string]bool
	parts  []trace.Part
}

// part adds an expression, and its parts.
func (w *explainer) part(e ast.Expr, depth int) {
	if !w.worthy(e) {
		w.inside(e, depth)
		return
	}
	v, known := w.values[e.ID()]
	if !known || len(w.parts) >= maxExplained {
		if e.Kind() != ast.SelectKind { // a path without a value may be part of a longer path
			w.inside(e, depth)
		}
		return
	}
	source, err := parser.Unparse(e, w.info, parser.WrapOnColumn(math.MaxInt32))
	if err != nil {
		w.inside(e, depth)
		return
	}
	p := trace.Part{Depth: depth, Source: source}
	if failure, ok := v.(*types.Err); ok {
		p.Error = failure.Error()
	} else {
		p.Value = shown(v)
	}
	w.parts = append(w.parts, p)
	w.inside(e, depth+1)
}

// worthy reports whether the value of the part is informative. Literals and whole documents are not.
func (w *explainer) worthy(e ast.Expr) bool {
	switch e.Kind() {
	case ast.CallKind:
		call := e.AsCall()
		for _, a := range call.Args() {
			if w.ofMacro(a) { // an internal step of a loop
				return false
			}
		}
		return call.FunctionName() != operators.NotStrictlyFalse
	case ast.IdentKind:
		return w.locals[e.AsIdent()] && !w.ofMacro(e)
	case ast.SelectKind, ast.ComprehensionKind:
		return true
	}
	return false
}

// ofMacro reports whether the expression is the accumulator of a loop, which the author did not write.
func (w *explainer) ofMacro(e ast.Expr) bool {
	return e.Kind() == ast.IdentKind && (e.AsIdent() == parser.AccumulatorName || e.AsIdent() == parser.HiddenAccumulatorName)
}

// inside adds the parts of an expression.
func (w *explainer) inside(e ast.Expr, depth int) {
	switch e.Kind() {
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			w.part(call.Target(), depth)
		}
		args := call.Args()
		if name := call.FunctionName(); len(args) == 2 && (name == operators.Index || name == operators.OptIndex || name == operators.OptSelect) {
			w.inside(args[0], depth) // the path is added as a whole
			args = args[1:]
		}
		for _, a := range args {
			w.part(a, depth)
		}
	case ast.SelectKind:
		w.inside(e.AsSelect().Operand(), depth)
	case ast.ListKind:
		for _, x := range e.AsList().Elements() {
			w.part(x, depth)
		}
	case ast.MapKind:
		for _, x := range e.AsMap().Entries() {
			w.part(x.AsMapEntry().Key(), depth)
			w.part(x.AsMapEntry().Value(), depth)
		}
	case ast.StructKind:
		for _, x := range e.AsStruct().Fields() {
			w.part(x.AsStructField().Value(), depth)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		w.part(c.IterRange(), depth)
		w.part(c.LoopStep(), depth)
		w.part(c.Result(), depth)
	}
}

// shown returns a value for the trace: as JSON if it has that form, otherwise in CEL notation.
func shown(v ref.Val) any {
	if v == nil || types.IsUnknownOrError(v) {
		return nil
	}
	switch v.(type) {
	case types.Bytes, types.Duration, types.Timestamp, types.Uint, *types.Optional:
		return trace.Notation(types.Format(v))
	}
	if out, err := values.Decode(v, maxShownNesting); err == nil {
		return out
	}
	return trace.Notation(types.Format(v))
}
