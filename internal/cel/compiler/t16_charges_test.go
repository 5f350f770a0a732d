package compiler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/cel/compiler"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
)

// TestT16Charges: calls are charged by the size that matters: the instructions of a regular expression times the text, the nodes of a YAML
// text after its aliases are replaced.
func TestT16Charges(t *testing.T) {
	aliases := "a: &a [" + strings.Repeat("1,", 100) + "1]\nb: [" + strings.Repeat("*a,", 100) + "*a]\n"
	for _, c := range []struct {
		name, expression string
		s                string
		least            int64
	}{
		{"matches", "object.s.matches('a{0,900}b')", strings.Repeat("a", 1_000), 1_000 * 900 / 4},
		{"matches, dynamic", "object.s.matches('a{0,900}' + 'b')", strings.Repeat("a", 1_000), 1_000 * 900 / 4},
		{"find", "object.s.find('a{0,900}b') == ''", strings.Repeat("a", 1_000), 1_000 * 900 / 4},
		{"findAll", "object.s.findAll('a*b|a').size() > 0", strings.Repeat("a", 500), 500 * 500 / 2 * 3 / 4},
		{"regex.replace", "regex.replace(object.s, 'a*b|a', 'c') != ''", strings.Repeat("a", 500), 500 * 500 / 2 * 3 / 4},
		{"regex.extract", "!regex.extract(object.s, 'a{0,900}b').hasValue()", strings.Repeat("a", 1_000), 1_000 * 900 / 4},
		{"regex.extractAll", "regex.extractAll(object.s, 'a*b|a').size() > 0", strings.Repeat("a", 500), 500 * 500 / 2 * 3 / 4},
		{"yaml.parse", "yaml.parse(object.s) != null", aliases, 100 * 100 * 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			spent, err := spentOn(c.expression, c.s)
			if err != nil || spent < c.least {
				t.Errorf("%d steps, %d are the least: %v", spent, c.least, err)
			}
		})
	}
}

// TestT16SmallPrices: what people write costs a small part of the budget of 2,000,000 steps.
func TestT16SmallPrices(t *testing.T) {
	for expression, most := range map[string]int64{
		"object.s.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')": 4000,
		"object.s.findAll('[a-z]+').size() == 1":                                                   8000,
		"regex.replace(object.s, '[^a-z]', '-') != ''":                                             8000,
		"regex.extract(object.s, '^([a-z]+)').hasValue()":                                          2000,
		"yaml.parse('a: [1, 2]').a.size() == 2":                                                    1000,
		"object.s.find('[0-9]+') == ''":                                                            1000,
		"object.s.startsWith('a') && object.s.size() < 64":                                         200,
		"regex.extractAll(object.s, 'a(a*)').size() == 1 || 1 == 1":                                3000,
	} {
		if spent, err := spentOn(expression, strings.Repeat("a", 63)); err != nil || spent > most {
			t.Errorf("%s: %d steps, %d are the most: %v", expression, spent, most, err)
		}
	}
}

// TestT16Deadline: an evaluation whose deadline has passed makes no further expensive call.
func TestT16Deadline(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := compiler.New(env.Declarations{Kind: env.Validating})
	x, err := c.Compile("[1, 2, 3, 4, 5, 6, 7, 8].all(i, object.s.matches('a{0,900}b') || true)", typecheck.Bool)
	must(t, err)
	e := c.Variables().Evaluate(ctx, &run.Input{Object: object{"s": strings.Repeat("a", 1_000)}}, price.Budget)
	if _, err := e.Bool(x); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if one, err := spentOn("object.s.matches('a{0,900}b') || true", strings.Repeat("a", 1_000)); err != nil || e.Spent() > 2*one {
		t.Errorf("%d steps were spent, one call takes %d: %v", e.Spent(), one, err)
	}
}

// spentOn returns what an expression is charged for an object with a text.
func spentOn(expression, text string) (int64, error) {
	c := compiler.New(env.Declarations{Kind: env.Validating})
	x, err := c.Compile(expression, typecheck.Bool)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", expression, err)
	}
	e := c.Variables().Evaluate(context.Background(), &run.Input{Object: object{"s": text}}, price.Budget)
	_, err = e.Bool(x)
	return e.Spent(), err
}
