package run

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/values"
)

// quantifier is a loop of the macros all and exists. It gives the same results and charges the same cost as the library's loop, which it
// embeds. It evaluates only the range and the predicate: for each element, the library's loop also looks up the accumulator, its condition
// and the interruption by name.
type quantifier struct {
	interpreter.Interpretable
	over, predicate interpreter.Interpretable
	element, accu   string // names of variables
	step            int64  // the id of the && or || that an iteration evaluates
	nodes           int    // of an iteration
	decisive        types.Bool
	afterOver, fold int64 // ids of the first node that is planned after the range, and of the loop
}

// quantifiers finds the loops of these macros by their structure. Loops come only from macros.
func quantifiers(checked *ast.AST, nodes map[int64]int) []*quantifier {
	var out []*quantifier
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind {
			if q := newQuantifier(e.AsComprehension()); q != nil {
				q.fold, q.nodes = e.ID(), nodes[q.step]
				out = append(out, q)
			}
		}
	}))
	return out
}

func newQuantifier(c ast.ComprehensionExpr) *quantifier {
	if c.IterVar2() != "" || c.AccuInit().Kind() != ast.LiteralKind || !isName(c.Result(), c.AccuVar()) {
		return nil
	}
	initial, ok := c.AccuInit().AsLiteral().(types.Bool)
	join, condition := operators.LogicalAnd, argumentOf(c.LoopCondition(), operators.NotStrictlyFalse)
	if !initial {
		join, condition = operators.LogicalOr, argumentOf(condition, operators.LogicalNot)
	}
	step := c.LoopStep()
	if !ok || !isName(condition, c.AccuVar()) || step.Kind() != ast.CallKind || step.AsCall().FunctionName() != join {
		return nil
	}
	if args := step.AsCall().Args(); len(args) != 2 || !isName(args[0], c.AccuVar()) {
		return nil
	}
	return &quantifier{element: c.IterVar(), accu: c.AccuVar(), step: step.ID(), decisive: !initial, afterOver: condition.ID()}
}

func isName(e ast.Expr, name string) bool {
	return e != nil && e.Kind() == ast.IdentKind && e.AsIdent() == name
}

// argumentOf returns the argument of a call of a function with one argument; nil if e is not such a call.
func argumentOf(e ast.Expr, function string) ast.Expr {
	if e == nil || e.Kind() != ast.CallKind {
		return nil
	}
	if call := e.AsCall(); call.FunctionName() == function && !call.IsMemberFunction() && len(call.Args()) == 1 {
		return call.Args()[0]
	}
	return nil
}

// quantified returns a decorator that replaces loops by quantifiers. The library plans the parts of a loop in the order accumulator, range,
// condition, step, result, and decorates each node after its parts. So the node before the first node of the condition is the range, and the
// node before the step is the predicate.
func (in *planning) quantified(nodes map[int64]int) interpreter.InterpretableDecorator {
	found := quantifiers(in.checked, nodes)
	var last interpreter.Interpretable
	return func(i interpreter.Interpretable) (interpreter.Interpretable, error) {
		id := i.ID()
		for _, q := range found {
			switch {
			case id == q.afterOver && q.over == nil:
				q.over = last
			case id == q.step:
				q.predicate = last
			case id == q.fold && q.over != nil && q.predicate != nil:
				q.Interpretable = i
				i = q
			}
		}
		last = i
		return i, nil
	}
}

// Exec implements the library's interface.
func (q *quantifier) Exec(frame *interpreter.ExecutionFrame) ref.Val { return q.Eval(frame) }

// Eval implements the library's interface.
func (q *quantifier) Eval(vars interpreter.Activation) ref.Val {
	e := evaluationOf(vars)
	if e == nil {
		return q.Interpretable.Eval(vars)
	}
	over := q.over.Eval(vars)
	if types.IsUnknownOrError(over) {
		return over
	}
	s := e.scopes
	if s == nil {
		s = &element{}
	}
	e.scopes = s.next
	frame, err := interpreter.NewExecutionFrame(s)
	if err != nil {
		return types.WrapErr(err)
	}
	*s = element{around: vars, of: q, accu: !q.decisive, frame: frame}
	v := q.loop(e, s, over)
	frame.Close()
	*s = element{next: e.scopes}
	e.scopes = s
	return v
}

// loop evaluates the predicate for the elements of the range. It stops after the first element that decides the result.
func (q *quantifier) loop(e *Evaluation, s *element, over ref.Val) ref.Val {
	if list, ok := over.(*values.List); ok {
		for _, v := range *list {
			if s.accu == ref.Val(q.decisive) {
				break
			}
			if _, isMap := v.(map[string]any); isMap {
				s.value = v // most predicates read members only, and a Map takes memory
			} else {
				s.value = values.JSON.NativeToValue(v)
			}
			if !q.iterate(e, s) {
				return types.NewErr(textInterrupted)
			}
		}
		return s.accu
	}
	if !over.Type().HasTrait(traits.IterableType) {
		return types.ValOrErr(over, "got '%T', expected iterable type", over)
	}
	for it := over.(traits.Iterable).Iterator(); it.HasNext() == types.True; {
		s.value = it.Next()
		if s.accu == ref.Val(q.decisive) {
			break
		}
		if !q.iterate(e, s) {
			return types.NewErr(textInterrupted)
		}
	}
	return s.accu
}

// iterate evaluates the predicate for an element. It returns false if the evaluation was interrupted.
func (q *quantifier) iterate(e *Evaluation, s *element) bool {
	if e.Ended() {
		return false
	}
	e.Spend(int64(q.nodes))
	e.Charge(price.NodeSteps * q.nodes)
	v := q.predicate.Eval(s.frame)
	b, isBool := v.(types.Bool)
	_, undecided := s.accu.(types.Bool)
	switch {
	case isBool && b == q.decisive:
		s.accu = v
	case !undecided: // the predicate failed for an earlier element
		s.accu = types.LabelErrNode(q.step, s.accu)
	case isBool:
	case types.IsError(v):
		s.accu = types.LabelErrNode(q.step, v)
	default:
		s.accu = types.LabelErrNode(q.step, types.MaybeNoSuchOverloadErr(v))
	}
	return !e.Ended()
}

// element is the scope of the predicate.
type element struct {
	around interpreter.Activation
	frame  *interpreter.ExecutionFrame // of this scope, for the parts of the predicate
	of     *quantifier
	value  any // a CEL value, or a map of decoded JSON
	accu   ref.Val
	next   *element // the next unused scope in the list Evaluation.scopes
}

// ResolveName implements the library's interface.
func (s *element) ResolveName(name string) (any, bool) {
	switch name {
	case s.of.element:
		return s.value, true
	case s.of.accu:
		return s.accu, true
	}
	return s.around.ResolveName(name)
}

// Parent implements the library's interface.
func (s *element) Parent() interpreter.Activation { return s.around }
