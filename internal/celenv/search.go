package celenv

import (
	"errors"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// search is a call of one of the functions in searching. A literal regular expression is compiled together with the expression.
type search struct {
	*call
	literal *regex // nil if the regular expression is not a literal
	charge  searchCharge
}

// newSearch returns the node for a call of one of the functions in searching.
func newSearch(c *call) *search {
	out := &search{call: c, charge: searching[c.Function()]}
	if constant, ok := unrecorded(c.args[1]).(interpreter.InterpretableConst); ok {
		if source, ok := constant.Value().(types.String); ok {
			out.literal, _ = newRegex(nil, string(source)) // the call reports the mistake
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
	if s.price.byResult() {
		e.payResult(s.Function(), s.OverloadID(), args, nil) // the charge for the search ends the evaluation
	} else if err := s.pay(vars, args[0], args[1], nil); err != nil {
		return err
	}
	x, err := s.literal, error(nil)
	if x == nil {
		x, err = newRegex(&e.meter, string(source))
	}
	if err == nil {
		err = s.charge(&e.meter, x, args)
	}
	switch {
	case errors.Is(err, errTooLarge):
		return tooLarge(vars)
	case e.ended():
		return types.WrapErr(errOutOfBudget)
	}
	if x == nil || err != nil {
		return s.callWith(args) // it reports the mistake
	}
	switch s.Function() {
	case "matches":
		return types.Bool(x.MatchString(text(args[0])))
	case "find":
		return types.String(x.FindString(text(args[0])))
	case "findAll":
		return limitResult(types.NewStringList(types.DefaultTypeAdapter, x.FindAllString(text(args[0]), limitOf(args))), vars)
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
