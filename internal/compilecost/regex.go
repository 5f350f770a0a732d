package compilecost

import (
	"math"
	"regexp/syntax"
	"strings"
	"time"
	"unicode/utf8"
)

// What package regexp takes at most, measured with Go 1.26 (see TestEstimates).
const (
	textBytes, textTime       = 256, 250 * time.Nanosecond // for each byte of the text
	classBytes, classTime     = 48 << 10, 50 * time.Microsecond
	classHeld                 = 10 << 10              // for a class of Unicode, such as \pL, which has hundreds of ranges
	foldTime                  = 10 * time.Millisecond // for a wide range without regard to case: each character is looked up
	programBytes, programHeld = 512, 128              // for each instruction
	programTime               = time.Microsecond
	groupBytes                = 16 // for each group and instruction: the engine's, when it searches
)

// Regular is what a regular expression becomes.
type Regular struct {
	Cost
	// Program is the number of instructions, and Groups the number of groups in parentheses.
	Program, Groups int
	once            bool // there is at most one match
	behind          bool // a match depends on the text before it
}

// Regex measures a regular expression. A text that already exceeds the bounds of an expression by its length and its classes is not parsed.
// The error is that of package regexp.
func Regex(text string) (Regular, error) {
	r := Regular{Cost: Reading(text)}
	if r.Check() != nil {
		return r, nil
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return r, err
	}
	r.Program, r.Groups = expanse(tree), tree.MaxCap()
	r.once, r.behind = anchored(tree), looksBehind(tree)
	r.Add(Cost{
		Time: time.Duration(r.Program) * programTime, Held: int64(r.Program) * programHeld,
		Peak: int64(r.Program) * (programBytes + int64(r.Groups)*groupBytes),
	})
	return r, nil
}

// Reading returns what parsing a regular expression takes, by its length and its classes.
func Reading(text string) Cost {
	c := Cost{Time: time.Duration(len(text)) * textTime, Peak: int64(len(text)) * textBytes}
	classes := int64(strings.Count(text, `\p`) + strings.Count(text, `\P`))
	if strings.Contains(text, "(?") { // perhaps without regard to case
		wide := int64(0)
		for i := 0; i+1 < len(text); i++ {
			if text[i] == '-' && (text[i+1] == '\\' || text[i+1] >= utf8.RuneSelf) {
				wide++
			}
		}
		c.Time += time.Duration(wide) * foldTime
		classes += wide
	}
	c.Time += time.Duration(classes) * classTime
	c.Peak += classes * classBytes
	c.Held += classes * classHeld
	return c
}

// smallClass is the number of bounds of a class up to which they are compared one by one.
const smallClass = 16

// maxCount is the largest number of instructions; larger ones count as this.
const maxCount = math.MaxInt32

// expanse estimates the number of instructions of a program. The instructions of a repeated class share its ranges, which reading counts.
func expanse(re *syntax.Regexp) (program int) {
	program = 1
	switch re.Op {
	case syntax.OpLiteral:
		program += len(re.Rune)
	case syntax.OpCapture:
		program++
	case syntax.OpAlternate:
		program += len(re.Sub)
	case syntax.OpCharClass:
		if len(re.Rune) > smallClass {
			program++ // it takes twice as long to compare
		}
	}
	for _, sub := range re.Sub {
		program += expanse(sub)
	}
	if re.Op == syntax.OpRepeat {
		program *= max(re.Min, re.Max, 1)
	}
	return min(program, maxCount)
}
