package compiler_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/cel/compiler"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
)

// Expressions that would take a long time or much memory end in an error soon, with little memory.
func TestBombs(t *testing.T) {
	if raceDetector {
		t.Skip("time and memory are measured without the race detector: the gate runs this test once more")
	}
	list := make([]any, 10_000)
	for i := range list {
		list[i] = map[string]any{"n": int64(i), "s": strings.Repeat("a", 20)}
	}
	doubling := func(first, op string) func(c *compiler.Compiler) {
		return func(c *compiler.Compiler) {
			must(t, c.Variable("v0", first))
			for i := 1; i <= 40; i++ {
				must(t, c.Variable(fmt.Sprint("v", i), fmt.Sprintf(op, i-1, i-1)))
			}
		}
	}
	for _, b := range []struct {
		name, expression string
		prepare          func(*compiler.Compiler)
	}{
		{"doubling strings", "variables.v40.size() > 0", doubling("'aaaaaaaaaa'", "variables.v%d + variables.v%d")},
		{"doubling lists", "variables.v40.size() > 0", doubling("[1, 2]", "variables.v%d + variables.v%d")},
		{"doubling lists, one element", "variables.v40[7] > 0", doubling("[1, 2]", "variables.v%d + variables.v%d")},
		{"nested lists", "variables.v40 == variables.v40", doubling("dyn([1])", "dyn([variables.v%d, variables.v%d])")},
		{"joined", "variables.v40.size() > 0", doubling("'aaaaaaaaaa'", "[variables.v%d, variables.v%d].join('-')")},
		{"format", "variables.v40.size() > 0", doubling("'aaaaaaaaaa'", "'%%s%%s'.format([variables.v%d, variables.v%d])")},
		{"replace", "variables.v40.size() > 0", doubling("'aaaaaaaaaa'", "variables.v%d.replace('a', 'aa') + variables.v%d")},
		{"nested filters", "object.filter(a, object.filter(b, object.filter(c, a.n + b.n + c.n < 0).size() > 0).size() > 0).size() > 0", nil},
		{"maps of maps", "object.map(a, object.map(b, object.map(c, c.s))).size() > 0", nil},
		{"regular expression", "object.all(a, ('" + strings.Repeat("a", 5000) + "!').matches('^(a+)+$'))", nil},
		{"sort", "object.map(a, object.map(b, b.s).join('')).join('').size() > 0", nil},
		{"nested optionals", "variables.v40 == variables.v40", doubling("dyn([1])", "dyn([optional.of(variables.v%d), optional.of(variables.v%d)])")},
		{"nested Objects", "variables.v40 == variables.v40", doubling("Object{}", "Object{a: variables.v%d, b: variables.v%d}")},
		{"nested patches", "variables.v40 == variables.v40", doubling("JSONPatch{}", "JSONPatch{value: [variables.v%d, variables.v%d]}")},
		// The argument of join is a variable that also calls join, so that both calls have the same ID.
		{"join behind a variable", "variables.list.join(variables.text).size() > 0", func(c *compiler.Compiler) {
			must(t, c.Variable("v0", "'aaaaaaaaaa'"))
			for i := 1; i <= 18; i++ {
				must(t, c.Variable(fmt.Sprint("v", i), fmt.Sprintf("variables.v%d + variables.v%d", i-1, i-1)))
			}
			must(t, c.Variable("one", "[variables.v18]"))
			must(t, c.Variable("none", "''"))
			must(t, c.Variable("text", "variables.one.join(variables.none)"))
			must(t, c.Variable("list", "object.map(o, o.s)"))
		}},
		{"nested macros", "dyn([1]" + strings.Repeat(".map(x, [x, x])", 15) + ") == dyn([2])", nil},
		{"nested macros of text", "['aaaaaaaaaa']" + strings.Repeat(".map(x, x + x)", 19) + " == ['b']", nil},
		{"range", "lists.range(2000000000).size() > 0", nil},
		{"distinct", "object.distinct().size() > 0", nil},
		{"sets", "sets.equivalent(object, object)", nil},
		{"replace with much", "object.map(a, a.s).join('').replace('a', object.map(a, a.s).join('')).size() > 0", nil},
		{"join with much", "object.map(a, a.s).join(object.map(a, a.s).join('')).size() > 0", nil},
		{"search", "object.map(a, a.s).join('').indexOf(object.map(a, a.s).join('').substring(100000) + 'b') > 0", nil},
		{"comparisons", "object.all(a, [object, object, object] == [object, object, object])", nil},
		{"split", "object.map(a, a.s).join('').split('').map(c, object.map(a, a.s).join('').split('')).size() > 0", nil},
	} {
		t.Run(b.name, func(t *testing.T) {
			c := compiler.New(env.Declarations{})
			must(t, c.Mutations())
			if b.prepare != nil {
				b.prepare(c)
			}
			x, err := c.Compile(b.expression, typecheck.Bool)
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			ok, err := c.Variables().Evaluate(t.Context(), &run.Input{Object: list}, price.Budget).Bool(x)
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 64 || took > time.Minute {
				t.Errorf("it took %v and %d MB: %v, %v", took, allocated, ok, err)
			}
			if err != nil && !errors.Is(err, price.ErrBudget) {
				t.Error(err)
			}
			if testing.Verbose() {
				t.Logf("%v, %d MB, %v", took, (after.TotalAlloc-before.TotalAlloc)>>20, errors.Is(err, price.ErrBudget))
			}
		})
	}
	deep := strings.Repeat("(", 2000) + "true" + strings.Repeat(")", 2000)
	if _, err := compiler.New(env.Declarations{}).Compile(deep, typecheck.Bool); err == nil {
		t.Error("2,000 levels compile")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
