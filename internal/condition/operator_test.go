package condition

import (
	"strings"
	"testing"
)

func TestOperatorsAreDocumentedAndTheirExamplesHold(t *testing.T) {
	for _, op := range Operators() {
		if op.Doc == "" || !strings.HasSuffix(op.Doc, ".") {
			t.Errorf("%s: no documentation sentence", op.Name)
		}
		yes, no := 0, 0
		for _, e := range op.Examples {
			if got := op.Evaluate(e.Key, e.Value); got != e.Want {
				t.Errorf("%#v %s %#v = %v, want %v", e.Key, op.Name, e.Value, got, e.Want)
			}
			if got, err := op.prepare(e.Value, false).evaluateKey(nil, e.Key); err != nil || got != e.Want {
				t.Errorf("prepared: %#v %s %#v = %v %v, want %v", e.Key, op.Name, e.Value, got, err, e.Want)
			}
			if e.Want {
				yes++
			} else {
				no++
			}
		}
		if yes == 0 || no == 0 {
			t.Errorf("%s: examples of both verdicts are due, there are %d and %d", op.Name, yes, no)
		}
	}
}

func TestRegistryHoldsTheEighteenNames(t *testing.T) {
	want := `"Equals" "Equal" "NotEquals" "NotEqual" "AnyIn" "AllIn" "AnyNotIn" "AllNotIn" "In" "NotIn" ` +
		`"GreaterThan" "GreaterThanOrEquals" "LessThan" "LessThanOrEquals" ` +
		`"DurationGreaterThan" "DurationGreaterThanOrEquals" "DurationLessThan" "DurationLessThanOrEquals"`
	if got := invalidOperator(); got != "entered value of `operator` is invalid. valid values: ["+want+"]" {
		t.Error(got)
	}
	defer func() {
		if recover() == nil {
			t.Error("a name declared twice is not refused")
		}
	}()
	newRegistry(equals, &Operator{Name: "X", Aliases: []string{"equal"}})
}
