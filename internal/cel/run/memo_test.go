package run

import (
	"context"
	"errors"
	"testing"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/price"
)

func listOf(n int) map[string]any {
	var items []any
	for range n {
		items = append(items, map[string]any{"name": "b", "size": int64(2)})
	}
	return map[string]any{"items": items}
}

type compiledRule struct {
	*Variables
	expression *Expression
}

func ruleOf(t *testing.T, variable, expression string) compiledRule {
	t.Helper()
	c := newRule(t, env.Declarations{Kind: env.Validating})
	c.variable("v", variable)
	x, _ := c.expression(expression)
	return compiledRule{c.Variables, x}
}

func (r compiledRule) evaluate(t *testing.T, in *Input, budget int64) (ok bool, spent int64, err error) {
	t.Helper()
	e := r.Evaluate(context.Background(), in, budget)
	ok, err = e.Bool(r.expression)
	spent = e.Spent()
	if err == nil {
		e.Release()
	}
	return ok, spent, err
}

// The second rule gets the value of the variable from the first rule, and spends as much as it would without the first rule.
func TestMemoSharesValuesOfTheObject(t *testing.T) {
	const variable = "(object.items + object.?more.orValue([])).filter(i, i.size > 1)"
	first, second := ruleOf(t, variable, "size(variables.v) == 20"), ruleOf(t, variable, "variables.v.all(i, i.name == 'b')")
	object := listOf(20)
	_, alone, err := second.evaluate(t, &Input{Object: object}, price.Budget)
	if err != nil {
		t.Fatal(err)
	}
	memo := &Memo{}
	for range 2 {
		if ok, _, err := first.evaluate(t, &Input{Object: object, Memo: memo}, price.Budget); !ok || err != nil {
			t.Fatalf("the first rule: %v, %v", ok, err)
		}
		ok, spent, err := second.evaluate(t, &Input{Object: object, Memo: memo}, price.Budget)
		if !ok || err != nil || spent != alone {
			t.Errorf("the second rule: %v, %v; it spent %d, and alone %d", ok, err, spent, alone)
		}
	}
	if len(memo.values) != 1 {
		t.Errorf("%d values are kept", len(memo.values))
	}
	for budget := range alone / 10 {
		if _, _, err := second.evaluate(t, &Input{Object: object, Memo: memo}, budget); !errors.Is(err, price.ErrBudget) {
			t.Fatalf("with a budget of %d of %d: %v", budget, alone/10, err)
		}
	}
	other := listOf(21)
	if ok, _, err := first.evaluate(t, &Input{Object: other, Memo: memo}, price.Budget); ok || err != nil {
		t.Errorf("another object has the value of the first: %v, %v", ok, err)
	}
	e := first.Evaluate(context.Background(), &Input{Object: other, Memo: memo}, price.Budget)
	e.Rebind(object)
	if ok, err := e.Bool(first.expression); !ok || err != nil {
		t.Errorf("after Rebind the old object has a value: %v, %v", ok, err)
	}
}

// The iterations of a shared value count for each rule that uses it.
func TestMemoChargesLoops(t *testing.T) {
	const variable = "object.items.filter(i, i.size > 1)"
	r := ruleOf(t, variable, "size(variables.v) >= 0")
	memo, object := &Memo{}, listOf(100)
	for range 2 {
		e := r.Evaluate(context.Background(), &Input{Object: object, Memo: memo}, price.Budget)
		if _, err := e.Bool(r.expression); err != nil {
			t.Fatal(err)
		}
		if work := e.Work; work.Units < 100 || work.Steps < 100*price.NodeSteps {
			t.Errorf("%+v", work)
		}
	}
}

func TestValuesOfTheObjectAlone(t *testing.T) {
	for expression, want := range map[string]bool{
		"object.spec.containers + object.spec.?initContainers.orValue([])": true,
		"object.spec.containers.map(c, c.image)":                           true,
		"['a', 'b']":                                                       true,
		"oldObject.spec.containers":                                        false,
		"object.a == request.name":                                         false,
		"object.a == namespaceObject.metadata.name":                        false,
		"variables.w":                                                      false,
		"object.a.matches('x')":                                            false,
		"resource.Get('v1', 'pods', 'a', 'b').a":                           false,
	} {
		c := newRule(t, env.Declarations{Kind: env.Validating})
		c.variable("w", "object.w")
		x, _ := c.expression(expression)
		if x.ofObject != want {
			t.Errorf("%s: %v", expression, x.ofObject)
		}
	}
}

// A variable that fails is evaluated for each rule, so that each reports its error.
func TestMemoKeepsNoErrors(t *testing.T) {
	r, memo := ruleOf(t, "object.missing", "variables.v == 1"), &Memo{}
	for range 2 {
		var failed *env.EvaluationError
		if _, _, err := r.evaluate(t, &Input{Object: listOf(1), Memo: memo}, price.Budget); !errors.As(err, &failed) {
			t.Errorf("%v", err)
		}
	}
	if len(memo.values) != 0 {
		t.Errorf("%d values are kept", len(memo.values))
	}
}

// Variables of a released evaluation do not reach the next one.
func TestReleaseForgetsVariables(t *testing.T) {
	r, memo := ruleOf(t, "request.name", "variables.v == 'a'"), &Memo{}
	for name, want := range map[string]bool{"a": true, "b": false} {
		ok, _, err := r.evaluate(t, &Input{Object: listOf(1), Source: named(name), Memo: memo}, price.Budget)
		if ok != want || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	if memo.idle == nil {
		t.Error("the memory of the evaluation is not used again")
	}
}

type named string

func (n named) Request() (any, error)     { return map[string]any{"name": string(n)}, nil }
func (named) Namespace() (any, error)     { return nil, nil }
func (named) Authorizer() *env.Authorizer { return nil }
