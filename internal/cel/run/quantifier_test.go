package run

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/cel-go/interpreter"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/typecheck"
)

// Loops of all and exists give the results and errors of the library's loops, and cost the same.
func TestQuantifiersAreTheLibrarysLoops(t *testing.T) {
	object := map[string]any{
		"numbers": []any{int64(1), int64(2), int64(3), int64(4)},
		"mixed":   []any{int64(1), "a", nil, true, map[string]any{"x": int64(1)}},
		"maps":    []any{map[string]any{"name": "a", "tags": []any{"t", "u"}}, map[string]any{"name": "b"}, map[string]any{"tags": []any{}}},
		"labels":  map[string]any{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"},
		"empty":   []any{}, "text": "abc", "zero": int64(0),
		"flags": []any{true, false, "x"}, "more": []any{"x", false, true},
	}
	for _, loop := range []string{"all", "exists"} {
		for _, call := range []string{
			"object.numbers.%s(n, n > 0)", "object.numbers.%s(n, n > 2)", "object.numbers.%s(n, n > 9)",
			"object.numbers.%s(n, n / object.zero > 1)", "object.numbers.%s(n, n > 2 || n / object.zero > 1)", "object.numbers.%s(n, n > 2 && n / object.zero > 1)",
			"object.mixed.%s(n, n > 0)", "object.mixed.%s(n, n == 1)", "object.mixed.%s(n, n.x == 1)",
			"object.maps.%s(m, m.name == 'a')", "object.maps.%s(m, m.?name.orValue('') == '')", "object.maps.%s(m, has(m.tags))",
			"object.maps.%s(m, m.?tags.orValue([]).%[1]s(x, x == 't' || x == m.name))",
			"object.labels.%s(k, k < 'c')", "object.labels.%s(k, object.labels[k] != '2')",
			"object.empty.%s(n, n)", "object.flags.%s(n, n)", "object.more.%s(n, n)", "object.text.%s(n, true)", "object.missing.%s(n, true)",
			"[1, 2, 3].%s(n, n > 1)", "object.numbers.map(n, n * 2).%s(n, n > 4)", "object.numbers.filter(n, n > 1).%s(n, n > 1)",
			"object.numbers.%s(n, object.numbers.%[1]s(n, n > 3) || n == 1)", "[[1], [2, 3]].%s(l, l.%[1]s(n, n > 1))",
			"object.numbers.map(n, object.maps.%s(m, m.name == 'a')).size() > 0", "object.numbers.exists_one(n, object.numbers.%s(m, m >= n))",
			"object.numbers.%s(n, object.numbers.map(m, m + n).%[1]s(m, m > 3))",
		} {
			expression := fmt.Sprintf(call, loop)
			c := newRule(t, env.Declarations{Kind: env.Validating})
			x, checked := c.expression(expression)
			native := checked.NativeRep()
			in := &planning{Planner: PlannerOf(c.declared), checked: native, locals: typecheck.Locals(native)}
			all, made := in.decorators(nil), 0
			library, err := in.plan(c.in, all[:len(all)-1]) // without the quantifiers
			if err != nil {
				t.Fatal(err)
			}
			if _, err := in.plan(c.in, append(in.decorators(nil), func(i interpreter.Interpretable) (interpreter.Interpretable, error) {
				if _, ok := i.(*quantifier); ok {
					made++
				}
				return i, nil
			})); err != nil || made != len(quantifiers(native, nil)) || made == 0 {
				t.Errorf("%s: %d loops were replaced, of %d (%v)", expression, made, len(quantifiers(native, nil)), err)
			}
			type outcome struct {
				value, err string
				price.Work
				exceeded bool
			}
			evaluate := func(plan *planned, budget int64) outcome {
				e := c.Evaluate(context.Background(), &Input{Object: object}, budget)
				v, err := e.Value(&Expression{expression, plan})
				return outcome{fmt.Sprint(v), fmt.Sprint(err), e.Work, e.Exceeded()}
			}
			full := evaluate(x.planned, price.Budget)
			for budget := int64(0); budget <= full.Units+1; budget += 1 + full.Units/40 {
				got, want := evaluate(x.planned, budget), evaluate(&planned{root: library, nodes: x.nodes}, budget)
				if got != want {
					t.Errorf("%s with a budget of %d:\n%+v, and the library's loop gives\n%+v", expression, budget, got, want)
				}
			}
		}
	}
}

// A cancelled loop ends, and so does the loop around it.
func TestQuantifiersEndWithTheContext(t *testing.T) {
	many := make([]any, 1000)
	for i := range many {
		many[i] = int64(i)
	}
	c := newRule(t, env.Declarations{Kind: env.Validating})
	x, _ := c.expression("object.many.all(a, object.many.all(b, a + b >= 0))")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e := c.Evaluate(ctx, &Input{Object: map[string]any{"many": many}}, price.Budget)
	if _, err := e.Bool(x); err != context.Canceled {
		t.Error(err)
	}
	if work := e.Work; work.Steps > 20_000 {
		t.Errorf("%+v after the context ended", work)
	}
}
