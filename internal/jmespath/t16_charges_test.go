package jmespath_test

import (
	"context"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/jmespath"
)

// TestT16Charges: calls are charged by the size that matters: the instructions of a regular expression times the text, the nodes of a YAML
// text after its aliases are replaced.
func TestT16Charges(t *testing.T) {
	aliases := "a: &a [" + strings.Repeat("1,", 100) + "1]\nb: [" + strings.Repeat("*a,", 50) + "*a]\n"
	for _, c := range []struct {
		name, expression string
		s                string
		least            int64
	}{
		{"regex_match", "regex_match('a{900}b', s)", strings.Repeat("a", 1_000), 1_000 * 900 / 4},
		{"regex_replace_all", "regex_replace_all('a*b|a', s, 'c')", strings.Repeat("a", 500), 500 * 500 / 2 * 3 / 4},
		{"regex_replace_all_literal", "regex_replace_all_literal('a*b|a', s, 'c')", strings.Repeat("a", 500), 500 * 500 / 2 * 3 / 4},
		{"parse_yaml", "parse_yaml(s)", aliases, 50 * 100 * 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := budget.New(context.Background(), budget.DefaultSteps, budget.DefaultBytes)
			_, err := jmespath.MustCompile(c.expression).Search(&jmespath.Env{Meter: m}, map[string]any{"s": c.s})
			steps, bytes := m.Used()
			if err != nil || steps+bytes/8 < c.least {
				t.Errorf("%d steps and %d bytes, %d steps are the least: %v", steps, bytes, c.least, err)
			}
		})
	}
}
