package native

import (
	"errors"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// T8: the cost of expressions is charged to the policy. The evaluations for one request end when its budget is exhausted.
func TestT8ExpressionsAreCharged(t *testing.T) {
	p := CompileReport(Source{Policy: decoded(t, replicas+"  validations: [{expression: 'object.list.all(a, object.list.all(b, a == b))'}]\n")}, Options{})
	if p.Diags.HasErrors() {
		t.Fatal(p.Diags)
	}
	list := make([]any, 60)
	for i := range list {
		list[i] = int64(1)
	}
	object := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "d"}, "list": list, "spec": map[string]any{"replicas": int64(4)}}
	request := &policy.Request{Review: policy.Review{
		Operation: policy.Create, Object: value.Of(object), Name: "d",
		GVK: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, GVR: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
	}}
	all := budget.NewRequest()
	var over error
	n := 0
	for ; over == nil && n < 1000; n++ {
		var account budget.Account
		all.Open(&account, p, true) // the smaller budget, so that the test is quick
		if account.Err() != nil {
			break
		}
		meter := budget.New(t.Context(), budget.DefaultSteps, budget.DefaultBytes)
		meter.Charge(&account)
		c := &policy.Call{Env: &evalenv.Env{Meter: meter}, Request: request, Program: p, Rule: p.Rules[0]}
		y := p.Rules[0].Eval(c)
		over = meter.Settle()
		all.Close(&account)
		if n == 0 && y.Status != policy.StatusPass {
			t.Fatalf("the first evaluation: %s: %s", y.Status, y.Message)
		}
		if over != nil && y.Status != policy.StatusError {
			t.Errorf("the budget is used up, and the result is %s: %s", y.Status, y.Message)
		}
	}
	if !errors.Is(over, budget.ErrExhausted) || n > 200 {
		t.Errorf("after %d evaluations: %v; the budget of the policy is not charged", n, over)
	}
}
