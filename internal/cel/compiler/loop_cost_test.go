package compiler_test

import (
	"errors"
	"fmt"
	"testing"

	"ephor.invalid/ephor/internal/cel/compiler"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
)

// Loops over the usual contents of an object have a result. Nested loops over large contents are stopped, whatever they
// contain, and the loops around the stopped one end, too.
func TestLoops(t *testing.T) {
	list := func(n int) []any {
		out := make([]any, n)
		for i := range out {
			out[i] = map[string]any{"n": int64(i), "s": fmt.Sprint("name-", i)}
		}
		return out
	}
	for _, c := range []struct {
		expression string
		items      int
		fits       bool
	}{
		{"object.all(a, has(a.s) && a.s.startsWith('name') && a.n >= 0)", 10_000, true},
		{"object.map(a, a.n).size() == 10000", 10_000, true},
		{"object.filter(a, a.n > 5).all(a, a.s != '')", 10_000, true},
		{"object.exists_one(a, a.n == 7)", 10_000, true},
		{"object.all(a, object.exists_one(b, b.n == a.n))", 100, true},
		{"lists.range(30000).all(x, true)", 0, true},
		{"lists.range(100000).all(x, true)", 0, false}, // the library's cost limit alone would allow it
		{"object.all(a, object.all(b, b.n + a.n >= 0))", 10_000, false},
		{"object.map(a, object.map(b, b.n)).size() > 0", 10_000, false},
		{"object.all(a, object.filter(b, b.n > a.n).size() >= 0)", 1_000, false},
		{"object.transformMap(i, a, object.transformMap(j, b, i + j)).size() > 0", 1_000, false},
	} {
		compiler := compiler.New(env.Declarations{})
		x, err := compiler.Compile(c.expression, typecheck.Bool)
		if err != nil {
			t.Errorf("%s: %v", c.expression, err)
			continue
		}
		ok, err := evaluation(t, compiler, &run.Input{Object: list(c.items)}).Bool(x)
		switch {
		case c.fits && (err != nil || !ok):
			t.Errorf("%s over %d: %v, %v", c.expression, c.items, ok, err)
		case !c.fits && !errors.Is(err, price.ErrBudget):
			t.Errorf("%s over %d: %v, %v; want it refused", c.expression, c.items, ok, err)
		}
	}
}

// The budget that one expression does not use is available to the next one.
func TestLoopsShareTheirBudget(t *testing.T) {
	list := make([]any, 10_000)
	for i := range list {
		list[i] = int64(i)
	}
	compiler := compiler.New(env.Declarations{})
	x, err := compiler.Compile("object.all(a, a >= 0)", typecheck.Bool)
	if err != nil {
		t.Fatal(err)
	}
	e := evaluation(t, compiler, &run.Input{Object: list})
	for i := range 100 {
		if _, err := e.Bool(x); err != nil {
			if i < 2 || !errors.Is(err, price.ErrBudget) {
				t.Errorf("round %d: %v", i, err)
			}
			return
		}
	}
	t.Error("a million iterations were allowed")
}
