package celenv

import (
	"errors"
	"regexp"
	"strings"

	"ephor.invalid/ephor/internal/compilecost"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

const (
	// maxProgram is the maximum number of instructions of a compiled regular expression. The expression a{1000} is short but has a thousand
	// instructions.
	maxProgram = 8_000
	// maxMatches is the maximum number of matches that a call may find.
	maxMatches = 1 << 16
)

// searchCharge charges for a search before it is made.
type searchCharge func(m *meter, x *regex, args []ref.Val) error

// searching are the functions whose first two arguments are a text and a regular expression.
var searching = map[string]searchCharge{
	"matches": func(m *meter, x *regex, args []ref.Val) error {
		return m.steps(x.size.Search(size(args[0]), false))
	},
	"find": func(m *meter, x *regex, args []ref.Val) error {
		return m.steps(x.size.Search(size(args[0]), false))
	},
	"regex.extract": func(m *meter, x *regex, args []ref.Val) error {
		return m.steps(x.size.Search(size(args[0]), true))
	},
	"findAll": func(m *meter, x *regex, args []ref.Val) error {
		_, err := x.all(m, text(args[0]), limitOf(args), false)
		return err
	},
	"regex.extractAll": func(m *meter, x *regex, args []ref.Val) error {
		_, err := x.all(m, text(args[0]), -1, true)
		return err
	},
	"regex.replace": func(m *meter, x *regex, args []ref.Val) error {
		if len(args) < 3 {
			return nil
		}
		// Each match is replaced by the replacement, and by the groups to which that refers.
		found, err := x.all(m, text(args[0]), -1, true)
		with := size(args[2])
		if references := strings.Count(text(args[2]), `\`); err == nil && size(args[0])*(1+references)+found*with > maxText {
			return errTooLarge
		}
		return errors.Join(err, m.step(found*with/replacedPerPart))
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
func (x *regex) all(m *meter, text string, limit int, groups bool) (int, error) {
	found, err := x.size.FindAll(x.Regexp, text, limit, groups, m.steps)
	if err == nil && found > maxMatches && len(text) > maxMatches {
		return found, errTooLarge
	}
	return found, err
}

// newRegex compiles a regular expression and charges for it in advance. m may be nil.
func newRegex(m *meter, source string) (*regex, error) {
	if err := m.steps(compilecost.Reading(source).Steps()); err != nil {
		return nil, err
	}
	size, err := compilecost.Regex(source)
	if err != nil {
		return nil, err
	}
	if size.Check() != nil || size.Program > maxProgram {
		return nil, errTooLarge
	}
	if err := m.steps(size.Steps()); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(source)
	return &regex{re, size}, err
}
