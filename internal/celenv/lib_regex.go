package celenv

import (
	"errors"
	"regexp"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"ephor.invalid/ephor/internal/compilecost"
)

var libRegex = &Library{
	Name:     "regex",
	Doc:      "Regular expressions: matching strings and finding matches in them.",
	searches: searching,
}

const (
	// maxProgram is the maximum number of instructions of a compiled regular expression. The expression a{1000} is short but has a thousand
	// instructions.
	maxProgram = 8_000
	// maxMatches is the maximum number of matches that a call may find.
	maxMatches = 1 << 16
)

// searchCharge charges for a search before it is made.
type searchCharge func(e *Evaluation, x *regex, args []ref.Val) error

// searching are the functions whose first two arguments are a text and a regular expression.
var searching = map[string]searchCharge{
	"matches": func(e *Evaluation, x *regex, args []ref.Val) error {
		return e.steps(x.size.Search(size(args[0]), false))
	},
	"find": func(e *Evaluation, x *regex, args []ref.Val) error {
		return e.steps(x.size.Search(size(args[0]), false))
	},
	"regex.extract": func(e *Evaluation, x *regex, args []ref.Val) error {
		return e.steps(x.size.Search(size(args[0]), true))
	},
	"findAll": func(e *Evaluation, x *regex, args []ref.Val) error {
		_, err := x.all(e, text(args[0]), limitOf(args), false)
		return err
	},
	"regex.extractAll": func(e *Evaluation, x *regex, args []ref.Val) error {
		_, err := x.all(e, text(args[0]), -1, true)
		return err
	},
	"regex.replace": func(e *Evaluation, x *regex, args []ref.Val) error {
		if len(args) < 3 {
			return nil
		}
		// Each match is replaced by the replacement, and by the groups to which that refers.
		found, err := x.all(e, text(args[0]), -1, true)
		with := size(args[2])
		if references := strings.Count(text(args[2]), `\`); err == nil && size(args[0])*(1+references)+found*with > maxText {
			return errTooLarge
		}
		return errors.Join(err, e.step(found*with/replacedPerPart))
	},
}

// limitOf returns the third argument, the number of matches that are wanted; negative for all.
func limitOf(args []ref.Val) int {
	if len(args) < 3 {
		return -1
	}
	n, _ := args[2].(types.Int)
	return int(n)
}

// replacedPerPart is the number of bytes of a replacement that are read in the time in which one part of an expression is evaluated.
const replacedPerPart = 8

// regex is a compiled regular expression.
type regex struct {
	*regexp.Regexp
	size compilecost.Regular
}

// all charges for finding all matches, and returns an upper bound of their number.
func (x *regex) all(e *Evaluation, text string, limit int, groups bool) (int, error) {
	found, err := x.size.FindAll(x.Regexp, text, limit, groups, e.steps)
	if err == nil && found > maxMatches && len(text) > maxMatches {
		return found, errTooLarge
	}
	return found, err
}

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

// newRegex compiles a regular expression and charges for it in advance. e may be nil.
func newRegex(e *Evaluation, source string) (*regex, error) {
	if err := e.steps(compilecost.Reading(source).Steps()); err != nil {
		return nil, err
	}
	size, err := compilecost.Regex(source)
	if err != nil {
		return nil, err
	}
	if size.Check() != nil || size.Program > maxProgram {
		return nil, errTooLarge
	}
	if err := e.steps(size.Steps()); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(source)
	return &regex{re, size}, err
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
	if s.cost == costByLibrary {
		e.spend(libraryCost(s.Function(), s.OverloadID(), args, nil))
	} else if err := s.pay(vars, args[0], args[1]); err != nil {
		return err
	}
	x, err := s.literal, error(nil)
	if x == nil {
		x, err = newRegex(e, string(source))
	}
	if err == nil {
		err = s.charge(e, x, args)
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

// steps charges steps of package budget.
func (e *Evaluation) steps(n int64) error {
	if e == nil {
		return nil
	}
	return e.step(int(1 + n/stepsPerPart))
}

// stepsPerPart is the number of steps of package budget in the time in which one part of an expression is evaluated.
const stepsPerPart = 10
