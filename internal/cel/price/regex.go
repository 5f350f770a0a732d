package price

import (
	"errors"
	"regexp"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"ephor.invalid/ephor/internal/cel/values"
	"ephor.invalid/ephor/internal/compilecost"
)

const (
	// maxProgram is the maximum number of instructions of a compiled regular expression. The expression a{1000} is short but has a thousand
	// instructions.
	maxProgram = 8_000
	// maxMatches is the maximum number of matches that a call may find.
	maxMatches = 1 << 16
)

// SearchCharge charges for a search before it is made.
type SearchCharge func(m *Meter, x *Regex, args []ref.Val) error

// Searches are the functions whose first two arguments are a text and a regular expression.
var Searches = map[string]SearchCharge{
	"matches": func(m *Meter, x *Regex, args []ref.Val) error {
		return m.Afford(x.size.Search(Size(args[0]), false))
	},
	"find": func(m *Meter, x *Regex, args []ref.Val) error {
		return m.Afford(x.size.Search(Size(args[0]), false))
	},
	"regex.extract": func(m *Meter, x *Regex, args []ref.Val) error {
		return m.Afford(x.size.Search(Size(args[0]), true))
	},
	"findAll": func(m *Meter, x *Regex, args []ref.Val) error {
		_, err := x.all(m, values.Text(args[0]), LimitOf(args), false)
		return err
	},
	"regex.extractAll": func(m *Meter, x *Regex, args []ref.Val) error {
		_, err := x.all(m, values.Text(args[0]), -1, true)
		return err
	},
	"regex.replace": func(m *Meter, x *Regex, args []ref.Val) error {
		if len(args) < 3 {
			return nil
		}
		// Each match is replaced by the replacement, and by the groups to which that refers.
		found, err := x.all(m, values.Text(args[0]), -1, true)
		with := Size(args[2])
		if references := strings.Count(values.Text(args[2]), `\`); err == nil && Size(args[0])*(1+references)+found*with > MaxText {
			return ErrTooLarge
		}
		return errors.Join(err, m.Afford(int64(Steps(found*with, parsedBytes))))
	},
}

// LimitOf returns the third argument, the number of matches that are wanted; negative for all.
func LimitOf(args []ref.Val) int {
	if len(args) < 3 {
		return -1
	}
	n, _ := args[2].(types.Int)
	return int(n)
}

// Regex is a compiled regular expression.
type Regex struct {
	*regexp.Regexp
	size compilecost.Regular
}

// all charges for finding all matches, and returns an upper bound of their number.
func (x *Regex) all(m *Meter, text string, limit int, groups bool) (int, error) {
	found, err := x.size.FindAll(x.Regexp, text, limit, groups, m.Afford)
	if err == nil && found > maxMatches && len(text) > maxMatches {
		return found, ErrTooLarge
	}
	return found, err
}

// NewRegex compiles a regular expression and charges for it in advance. m may be nil.
func NewRegex(m *Meter, source string) (*Regex, error) {
	if err := m.Afford(compilecost.Reading(source).Steps()); err != nil {
		return nil, err
	}
	size, err := compilecost.Regex(source)
	if err != nil {
		return nil, err
	}
	if size.Check() != nil || size.Program > maxProgram {
		return nil, ErrTooLarge
	}
	if err := m.Afford(size.Steps()); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(source)
	return &Regex{re, size}, err
}
