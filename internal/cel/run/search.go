package run

import (
	"errors"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/values"
)

// search is a call of one of the functions in price.Searches. A literal regular expression is compiled together with the expression.
type search struct {
	*call
	literal *price.Regex // nil if the regular expression is not a literal
	charge  price.SearchCharge
}

// newSearch returns the node for a call of one of the functions in price.Searches.
func newSearch(c *call) *search {
	out := &search{call: c, charge: price.Searches[c.Function()]}
	if constant, ok := unrecorded(c.args[1]).(interpreter.InterpretableConst); ok {
		if source, ok := constant.Value().(types.String); ok {
			out.literal, _ = price.NewRegex(nil, string(source)) // the call reports the mistake
		}
	}
	return out
}

// Exec implements the library's interface.
func (s *search) Exec(frame *interpreter.ExecutionFrame) ref.Val { return s.Eval(frame) }

// Eval implements the library's interface.
func (s *search) Eval(vars interpreter.Activation) ref.Val {
	args := make([]ref.Val, len(s.args))
	for i, a := range s.args {
		if args[i] = a.Eval(vars); types.IsUnknownOrError(args[i]) {
			return args[i]
		}
	}
	_, ok := args[0].(types.String)
	source, isText := args[1].(types.String)
	if s.Function() == "findAll" && len(args) > 2 {
		_, isInt := args[2].(types.Int)
		ok = ok && isInt
	}
	e := evaluationOf(vars)
	switch {
	case e == nil || (!ok || !isText) && s.literal == nil:
		return s.callWith(args)
	case !ok || !isText:
		return types.NoSuchOverloadErr() // as the library does for literals
	}
	if s.price.ByResult() {
		e.PayResult(s.Function(), s.OverloadID(), args, nil) // the charge for the search ends the evaluation
	} else if err := s.pay(vars, args[0], args[1], nil); err != nil {
		return err
	}
	x, err := s.literal, error(nil)
	if x == nil {
		x, err = price.NewRegex(&e.Meter, string(source))
	}
	if err == nil {
		err = s.charge(&e.Meter, x, args)
	}
	switch {
	case errors.Is(err, price.ErrTooLarge):
		return tooLarge(vars)
	case e.Ended():
		return types.WrapErr(price.ErrOutOfBudget)
	}
	if x == nil || err != nil {
		return s.callWith(args) // it reports the mistake
	}
	switch s.Function() {
	case "matches":
		return types.Bool(x.MatchString(values.Text(args[0])))
	case "find":
		return types.String(x.FindString(values.Text(args[0])))
	case "findAll":
		return limitResult(types.NewStringList(types.DefaultTypeAdapter, x.FindAllString(values.Text(args[0]), price.LimitOf(args))), vars)
	}
	return limitResult(s.callWith(args), vars)
}

// callWith calls the function.
func (c *call) callWith(args []ref.Val) ref.Val {
	switch len(args) {
	case 1:
		return c.apply(args[0], nil)
	case 2:
		return c.apply(args[0], args[1])
	}
	return c.applyAll(args)
}
