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
)

// Regular is what a regular expression becomes.
type Regular struct {
	Cost
	// Program is the number of instructions.
	Program int
	// Forks is the number of alternatives that the engine may have to follow at once: the cost of a byte of text.
	Forks int
}

// Regex measures a regular expression. A text that already exceeds the bounds of an expression by its length and its classes is not parsed.
// The error is that of package regexp.
func Regex(text string) (Regular, error) {
	r := Regular{Cost: reading(text)}
	if r.Check() != nil {
		return r, nil
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return r, err
	}
	r.Program, r.Forks = expanse(tree)
	r.Add(Cost{
		Time: time.Duration(r.Program) * programTime, Peak: int64(r.Program) * programBytes, Held: int64(r.Program) * programHeld,
	})
	return r, nil
}

// reading returns what parsing a regular expression takes.
func reading(text string) Cost {
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

// maxCount is the largest number of instructions; larger ones count as this.
const maxCount = math.MaxInt32

// expanse estimates the number of instructions of a program, and how many of them fork. The instructions of a repeated class share its
// ranges, which reading counts.
func expanse(re *syntax.Regexp) (program, forks int) {
	program = 1
	switch re.Op {
	case syntax.OpLiteral:
		program += len(re.Rune)
	case syntax.OpCapture:
		program++
	}
	for _, sub := range re.Sub {
		p, f := expanse(sub)
		program, forks = program+p, forks+f
	}
	switch re.Op {
	case syntax.OpAlternate:
		forks += len(re.Sub) - 1
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		forks++
	case syntax.OpRepeat:
		times := max(re.Min, re.Max, 1)
		program, forks = min(program*times, maxCount), min((1+forks)*max(times-re.Min, 1)+forks*re.Min, maxCount)
	}
	return min(program, maxCount), min(forks, maxCount)
}
