package textgen

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"unicode/utf8"

	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/world"
)

const (
	// unlimitedRepeat is the maximum number of repetitions for * and +.
	unlimitedRepeat = 10
	// maxText bounds the generated text, and MaxPattern the expression.
	maxText    = 64 << 10
	MaxPattern = 64 << 10
)

// The reasons why no text is generated.
var (
	ErrTooLarge = fmt.Errorf("the text has more than %d bytes", maxText)
	ErrNoText   = errors.New("no text matches the pattern")
)

// partSteps is the cost of a part of an expression, in steps of package budget.
const partSteps = 10

// Text generates a text that the pattern matches. * and + repeat at most 10 times. step is called with the number of steps of package budget
// before they are taken; its error ends the work.
func Text(pattern string, rand world.Rand, step func(n int) error) (string, error) {
	if len(pattern) > MaxPattern {
		return "", ErrTooLarge
	}
	if err := step(int(compilecost.Reading(pattern).Steps())); err != nil {
		return "", err
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", err
	}
	g := &generator{rand: rand, step: step}
	if err := g.write(re); err != nil {
		return "", err
	}
	return string(g.out), nil
}

type generator struct {
	rand world.Rand
	step func(int) error
	out  []byte
	done int
}

func (g *generator) pick(n int) int { return g.rand.Intn(n) }

// write appends a text that the expression matches.
func (g *generator) write(re *syntax.Regexp) error {
	if err := g.step(partSteps + len(re.Rune)); err != nil {
		return err
	}
	// Nested repetitions of nothing produce no text but might never end.
	if g.done++; len(g.out) > maxText || g.done > 16*maxText {
		return ErrTooLarge
	}
	switch re.Op {
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			g.out = utf8.AppendRune(g.out, r)
		}
	case syntax.OpCharClass:
		return g.class(re.Rune)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return g.class([]rune{' ', '~'})
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			if err := g.write(sub); err != nil {
				return err
			}
		}
	case syntax.OpAlternate:
		return g.write(re.Sub[g.pick(len(re.Sub))])
	case syntax.OpStar:
		return g.repeat(re.Sub[0], 0, unlimitedRepeat)
	case syntax.OpPlus:
		return g.repeat(re.Sub[0], 1, unlimitedRepeat)
	case syntax.OpQuest:
		return g.repeat(re.Sub[0], 0, 1)
	case syntax.OpRepeat:
		most := re.Max
		if most < 0 {
			most = re.Min + unlimitedRepeat
		}
		return g.repeat(re.Sub[0], re.Min, most)
	case syntax.OpNoMatch:
		return ErrNoText
	}
	return nil // anchors and word boundaries match no text
}

func (g *generator) repeat(re *syntax.Regexp, least, most int) error {
	for range least + g.pick(most-least+1) {
		if err := g.write(re); err != nil {
			return err
		}
	}
	return nil
}

// class appends a character of a class, given as pairs of bounds. For a class that reaches beyond the printable ASCII
// characters, such as [^a], it prefers printable ASCII.
func (g *generator) class(bounds []rune) error {
	printable := make([]rune, 0, len(bounds))
	for i := 0; i < len(bounds); i += 2 {
		if lo, hi := max(bounds[i], ' '), min(bounds[i+1], '~'); lo <= hi {
			printable = append(printable, lo, hi)
		}
	}
	if len(printable) > 0 {
		bounds = printable
	}
	total := 0
	for i := 0; i < len(bounds); i += 2 {
		total += int(bounds[i+1]-bounds[i]) + 1
	}
	if total == 0 {
		return ErrNoText
	}
	n := g.pick(total)
	for i := 0; i < len(bounds); i += 2 {
		size := int(bounds[i+1]-bounds[i]) + 1
		if n < size {
			g.out = utf8.AppendRune(g.out, bounds[i]+rune(n))
			return nil
		}
		n -= size
	}
	return nil
}
