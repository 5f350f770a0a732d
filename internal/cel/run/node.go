package run

import (
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"github.com/google/cel-go/interpreter/functions"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/price"
)

// node replaces a node of the library by one of ours, if there is one. Decorators receive some nodes twice.
func (in *planning) node(i interpreter.Interpretable) interpreter.Interpretable {
	switch n := i.(type) {
	case *test:
		in.variable(n.of)
	case *path:
		in.variable(n)
	case interpreter.InterpretableAttribute:
		if p, ok := n.Attr().(*path); ok { // a call of has()
			in.variable(p)
			return &test{n, p}
		}
		if p := newPath(n, in); p != nil {
			return p
		}
	case interpreter.InterpretableConst:
	case interpreter.InterpretableConstructor:
		return limitedConstructor{n, node{in.checked, n.ID()}}
	case interpreter.InterpretableCall:
		return in.call(n)
	}
	return i
}

func (in *planning) call(n interpreter.InterpretableCall) interpreter.Interpretable {
	args := n.Args()
	switch name := n.Function(); {
	case name == env.OrValue && len(args) == 2 && n.OverloadID() != env.LenientOrValue && n.OverloadID() != "" && n.OverloadID() != "optional_orValue_value":
	case name == env.OrValue && len(args) == 2:
		direct, _ := args[0].(*path)
		return &orElse{n, args[0], args[1], direct}
	case name == "or" && len(args) == 2 && (n.OverloadID() == "" || n.OverloadID() == "optional_or_optional"):
		return &orOptional{n, args[0], args[1]}
	case name == "timestamp" && len(args) == 1:
		return &timestamp{in.ordinary(n)}
	case name == operators.Equals && len(args) == 2:
		return &equality{n, args[0], args[1], false}
	case name == operators.NotEquals && len(args) == 2:
		return &equality{n, args[0], args[1], true}
	case name == operators.NotStrictlyFalse && len(args) == 1:
		return &notFalse{n, args[0]}
	case price.Searches[name] != nil && len(args) > 1:
		return newSearch(in.ordinary(n).(*call))
	case env.FunctionOf(n.Function(), n.OverloadID()) != nil:
		f := env.FunctionOf(n.Function(), n.OverloadID())
		return &libraryCall{n, f, isLiteral(args, f)}
	}
	return in.ordinary(n)
}

// ordinary returns the node for a call of one of the library's functions.
func (in *planning) ordinary(n interpreter.InterpretableCall) interpreter.InterpretableCall {
	args := n.Args()
	if len(args) == 0 {
		return n
	}
	out := &call{InterpretableCall: n, args: args, Limit: env.Limits[n.Function()], price: price.Of(n.Function()), adds: n.Function() == operators.Add}
	if n.OverloadID() != "" {
		out.to, _ = in.functions.FindOverload(n.OverloadID())
	}
	if out.to == nil {
		out.to, _ = in.functions.FindOverload(n.Function())
	}
	return out
}

// call is a call of one of the library's functions. It evaluates the arguments, checks the price, calls the function, and charges for it.
type call struct {
	interpreter.InterpretableCall
	args []interpreter.InterpretableV2
	to   *functions.Overload // nil if the function depends on the type of the value
	price.Limit
	price price.Price
	adds  bool
}

// Exec implements the library's interface.
func (c *call) Exec(frame *interpreter.ExecutionFrame) ref.Val { return c.Eval(frame) }

// Eval implements the library's interface.
func (c *call) Eval(vars interpreter.Activation) ref.Val {
	strict := c.to == nil || !c.to.NonStrict
	if len(c.args) <= 2 && c.Limit == nil && !c.price.ByResult() {
		l := c.args[0].Eval(vars)
		if len(c.args) == 1 {
			if strict && types.IsUnknownOrError(l) {
				return l
			}
			if err := c.pay(vars, l, nil, nil); err != nil {
				return err
			}
			return c.apply(l, nil)
		}
		r := c.args[1].Eval(vars)
		switch {
		case strict && types.IsUnknownOrError(l):
			return l
		case strict && types.IsUnknownOrError(r):
			return r
		}
		if err := c.pay(vars, l, r, nil); err != nil {
			return err
		}
		out := c.apply(l, r)
		if c.adds {
			out = limitValues(out, vars)
		}
		return out
	}
	args := make([]ref.Val, len(c.args))
	for i, a := range c.args {
		if args[i] = a.Eval(vars); strict && types.IsUnknownOrError(args[i]) {
			return args[i]
		}
	}
	if c.Limit != nil && c.Limit(args, sizesOf(vars)) {
		return tooLarge(vars)
	}
	var r ref.Val
	var more []ref.Val
	if len(args) > 1 {
		r, more = args[1], args[2:]
	}
	if err := c.pay(vars, args[0], r, more); err != nil {
		return err
	}
	out := c.callWith(args)
	if c.price.ByResult() && !types.IsUnknownOrError(out) {
		if e := evaluationOf(vars); e != nil {
			if err := e.PayResult(c.Function(), c.OverloadID(), args, out); err != nil {
				return err
			}
		}
	}
	return limitResult(out, vars)
}

// pay charges for a call by the size of its arguments. It returns an error value if that is too much.
func (c *call) pay(vars interpreter.Activation, l, r ref.Val, more []ref.Val) ref.Val {
	e := evaluationOf(vars)
	if e == nil {
		return nil
	}
	return e.Pay(c.price, &e.sizes, l, r, more)
}

// apply calls the function with one or two arguments; r is nil if there is only one.
func (c *call) apply(l, r ref.Val) ref.Val {
	to := c.to
	if to == nil {
		return c.receive(l, r)
	}
	nonStrict := to.NonStrict && types.IsUnknownOrError(l)
	switch fits := to.OperandTrait == 0 || nonStrict || l.Type().HasTrait(to.OperandTrait); {
	case !fits:
		return c.receive(l, r)
	case r == nil && to.Unary != nil:
		return types.LabelErrNode(c.ID(), to.Unary(l))
	case r == nil && to.Function != nil:
		return types.LabelErrNode(c.ID(), to.Function(l))
	case r != nil && to.Binary != nil:
		return types.LabelErrNode(c.ID(), to.Binary(l, r))
	case r != nil && to.Function != nil:
		return types.LabelErrNode(c.ID(), to.Function(l, r))
	}
	return c.receive(l, r)
}

func (c *call) receive(l, r ref.Val) ref.Val {
	var rest []ref.Val
	if r != nil {
		rest = []ref.Val{r}
	}
	return c.receiveAll(l, rest)
}

func (c *call) receiveAll(l ref.Val, rest []ref.Val) ref.Val {
	if receiver, ok := l.(traits.Receiver); ok && l.Type().HasTrait(traits.ReceiverType) {
		return types.LabelErrNode(c.ID(), receiver.Receive(c.Function(), c.OverloadID(), rest))
	}
	return types.NewErrWithNodeID(c.ID(), "no such overload: %s", c.Function())
}

func (c *call) applyAll(args []ref.Val) ref.Val {
	to := c.to
	if to == nil || to.Function == nil || to.OperandTrait != 0 && !args[0].Type().HasTrait(to.OperandTrait) {
		return c.receiveAll(args[0], args[1:])
	}
	return types.LabelErrNode(c.ID(), to.Function(args...))
}

// equality is an evaluation of == or !=.
type equality struct {
	interpreter.InterpretableCall
	left, right interpreter.Interpretable
	not         bool
}

// Exec implements the library's interface.
func (q *equality) Exec(frame *interpreter.ExecutionFrame) ref.Val { return q.Eval(frame) }

// Eval implements the library's interface.
func (q *equality) Eval(vars interpreter.Activation) ref.Val {
	l, r := q.left.Eval(vars), q.right.Eval(vars)
	if a, ok := l.(types.String); ok {
		if b, ok := r.(types.String); ok {
			if n := min(len(a), len(b)) / 10; n > 1 {
				if e := evaluationOf(vars); e != nil {
					e.Spend(int64(n))
				}
			}
			return types.Bool((a == b) != q.not)
		}
	}
	switch {
	case types.IsUnknownOrError(l):
		return l
	case types.IsUnknownOrError(r):
		return r
	}
	if err := payComparison(vars, l); err != nil {
		return err
	}
	if err := payComparison(vars, r); err != nil {
		return err
	}
	same := types.Equal(l, r)
	if q.not {
		return types.Bool(same != types.True)
	}
	return same
}

// notFalse is the check that loops make on their result before each iteration.
type notFalse struct {
	interpreter.InterpretableCall
	value interpreter.Interpretable
}

// Exec implements the library's interface.
func (n *notFalse) Exec(frame *interpreter.ExecutionFrame) ref.Val { return n.Eval(frame) }

// Eval implements the library's interface.
func (n *notFalse) Eval(vars interpreter.Activation) ref.Val {
	if v, ok := n.value.Eval(vars).(types.Bool); ok {
		return v
	}
	return types.True
}
