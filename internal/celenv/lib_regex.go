package celenv

import (
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

var libRegex = &Library{
	Name: "regex",
	Doc:  "Regular expressions: whether a text matches, and what it holds that matches.",
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
	// maxProgram is how many instructions a regular expression may become: a{1000} is short, and a thousand instructions.
	maxProgram = 8_000
	// maxMatches is how many matches of a regular expression a call may find.
	maxMatches = 1 << 16
)

// searched is the price of looking for a regular expression in a text, the first two arguments: each part of the text is compared with each
// instruction of what the expression becomes.
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
		return false // without repetitions a program is about as long as its text
	}
	tree, err := syntax.Parse(string(source), syntax.Perl)
	if err != nil {
		return false // the call says what is wrong
	}
	program := instructions(tree)
	return program > maxProgram || text*program > maxSteps
}

// maxRepeat is how often a part of a regular expression may be repeated, a limit of the package regexp.
const maxRepeat = 1000

// instructions estimates the length of the program that a regular expression becomes.
func instructions(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/8
	if re.Op == syntax.OpLiteral {
		n = 1 + len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, 1<<30)
}

// searchedAll is the price of finding all matches.
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

// rewritten is the price of replacing all matches. A match is replaced by at most the text of the replacement, and by what it refers to.
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

// matchesOf are the matches of a regular expression in a text, the first two arguments. few is false where there are too many.
func matchesOf(args []ref.Val) (matches [][]int, few bool) {
	text, ok1 := args[0].(types.String)
	pattern, ok2 := args[1].(types.String)
	if !ok1 || !ok2 {
		return nil, true
	}
	re, err := regexp.Compile(string(pattern))
	if err != nil {
		return nil, true // the call says what is wrong
	}
	matches = re.FindAllStringIndex(string(text), maxMatches+1)
	return matches, len(matches) <= maxMatches
}
