package celenv

import (
	"regexp"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/ephor-dev/ephor/internal/compilecost"
)

var libRegex = &Library{
	Name: "regex",
	Doc:  "Regular expressions: matching strings and finding matches in them.",
	prices: map[string]price{
		"matches":          searched,
		"find":             searched,
		"findAll":          searchedAll,
		"regex.extract":    searched,
		"regex.extractAll": searchedAll,
		"regex.replace":    rewritten,
	},
}

const (
	// maxProgram is the maximum number of instructions of a compiled regular expression. The expression a{1000} is short but has a thousand
	// instructions.
	maxProgram = 8_000
	// maxMatches is the maximum number of matches that a call may find.
	maxMatches = 1 << 16
)

// searched reports whether searching a text for a regular expression, the first two arguments, takes too many steps: each part of the text
// is compared with each instruction of the compiled expression.
func searched(args []ref.Val, _ interpreter.Activation) bool {
	if len(args) < 2 {
		return false
	}
	text, pattern := size(args[0]), size(args[1])
	if text*pattern > maxSteps {
		return true
	}
	source, ok := args[1].(types.String)
	if !ok || !strings.Contains(string(source), "{") || pattern*maxRepeat <= maxProgram && text*pattern*maxRepeat <= maxSteps {
		return false // without repetitions, the compiled program is about as long as the expression
	}
	re, err := compilecost.Regex(string(source))
	if err != nil {
		return false // the call reports the mistake
	}
	return re.Check() != nil || re.Program > maxProgram || text*re.Program > maxSteps
}

// maxRepeat is the maximum repetition count in a regular expression, a limit of package regexp.
const maxRepeat = 1000

// searchedAll reports whether finding all matches takes too many steps or finds too many matches.
func searchedAll(args []ref.Val, vars interpreter.Activation) bool {
	if searched(args, vars) {
		return true
	}
	if len(args) < 2 || size(args[0]) < maxMatches {
		return false
	}
	_, few := matchesOf(args)
	return !few
}

// rewritten reports whether replacing all matches takes too many steps, or creates too long a text. Each match is replaced by at most the
// replacement text and the groups to which it refers.
func rewritten(args []ref.Val, vars interpreter.Activation) bool {
	if len(args) < 3 || searched(args, vars) {
		return len(args) >= 3
	}
	text, with := size(args[0]), size(args[2])
	if text < maxMatches && 2*(text+1)*(with+1) <= maxText {
		return false
	}
	matches, few := matchesOf(args)
	if !few {
		return true
	}
	replacement, _ := args[2].(types.String)
	made, references := text, strings.Count(string(replacement), `\`)
	for _, m := range matches {
		if made += with + references*(m[1]-m[0]); made > maxText {
			return true
		}
	}
	return false
}

// matchesOf returns the matches of a regular expression in a text, which are the first two arguments. few is false if there are too many.
func matchesOf(args []ref.Val) (matches [][]int, few bool) {
	text, ok1 := args[0].(types.String)
	pattern, ok2 := args[1].(types.String)
	if !ok1 || !ok2 {
		return nil, true
	}
	re, err := regexp.Compile(string(pattern))
	if err != nil {
		return nil, true // the call reports the mistake
	}
	matches = re.FindAllStringIndex(string(text), maxMatches+1)
	return matches, len(matches) <= maxMatches
}
