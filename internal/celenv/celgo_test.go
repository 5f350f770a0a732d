package celenv

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// reliedOn is the version of cel-go of which the facts below were read in its source. Nothing else in this package relies on what cel-go does
// not export or document.
const reliedOn = "v0.29.2"

func TestVersionOfCELGo(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`github.com/google/cel-go (v\S+)`).FindSubmatch(text)
	if m == nil || string(m[1]) != reliedOn {
		t.Errorf("cel-go has the version %s; read in its source what this file tests (interpreter/planner.go, interpreter/attributes.go, common/types/list.go), then change reliedOn", m[1])
	}
}

// planOf returns the plan of an expression, and the IDs of its nodes in the order in which the planner decorates them.
func planOf(t *testing.T, expression string) (root interpreter.Interpretable, checked *ast.AST, order []int64) {
	t.Helper()
	p, of := plannerOf(Declarations{Kind: Validating}), Declarations{Kind: Validating}.env()
	compiled, err := typed(of, expression, nil)
	if err != nil {
		t.Fatal(err)
	}
	checked = compiled.NativeRep()
	in := &planning{planner: p, checked: checked, locals: locals(checked)}
	root, err = in.plan(of, append(in.decorators(nil), func(i interpreter.Interpretable) (interpreter.Interpretable, error) {
		order = append(order, i.ID())
		return i, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	return root, checked, order
}

// The qualifier of has() has a type without an exported name (isTest).
func TestQualifierOfHas(t *testing.T) {
	for expression, want := range map[string]bool{"has(object.a.b)": true, "object.a.b": false} {
		root, _, _ := planOf(t, expression)
		_, is := root.(*test)
		if p, path := root.(*path); is != want || path && p.tests {
			t.Errorf("%s is planned as %T", expression, root)
		}
	}
}

// The sum of two lists has a type without an exported name (isConcatenation).
func TestSumOfLists(t *testing.T) {
	list := types.DefaultTypeAdapter.NativeToValue([]int64{1})
	if sum := list.(traits.Adder).Add(list); !isConcatenation(sum) || isConcatenation(ref.Val(list)) {
		t.Errorf("the sum of lists is a %T", sum)
	}
}

// The planner plans the parts of a loop in the order accumulator, range, condition, step, result, and decorates each node after its parts
// (planning.quantified). Our decorators run in the order of planning.decorators: the loop is replaced last, when its parts are our own nodes.
func TestOrderOfTheParts(t *testing.T) {
	root, checked, order := planOf(t, "object.l.all(x, x.a == 1)")
	loop := checked.Expr().AsComprehension()
	at := -1
	for _, part := range []ast.Expr{loop.AccuInit(), loop.IterRange(), loop.LoopCondition(), loop.LoopStep(), loop.Result(), checked.Expr()} {
		next := slices.Index(order, part.ID())
		if next <= at {
			t.Fatalf("the planner decorates the nodes in the order %v, not the part %d after the ones before it", order, part.ID())
		}
		at = next
	}
	q, ok := root.(*quantifier)
	if !ok {
		t.Fatalf("the loop is planned as %T", root)
	}
	if _, ok := q.over.(*path); !ok {
		t.Errorf("the range is planned as %T", q.over)
	}
	if _, ok := q.predicate.(*equality); !ok {
		t.Errorf("the predicate is planned as %T", q.predicate)
	}
}
