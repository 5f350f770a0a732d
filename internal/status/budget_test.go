package status

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// T8: an exceeded budget is written once in BudgetEvery for each generation, changes no other field of the status, and has a bounded
// message.
func TestT8WriteBudget(t *testing.T) {
	at := time.Unix(100_000, 0)
	exceeded := func(generation int64, after time.Duration) *kyvernov1.BudgetStatus {
		return &kyvernov1.BudgetStatus{ExceededAt: metav1.NewTime(at.Add(after)), ObservedGeneration: generation, Rule: "r", Message: "budget exhausted"}
	}
	for _, c := range []struct {
		name    string
		stored  any // the stored field; nil for none
		want    *kyvernov1.BudgetStatus
		written bool
	}{
		{"none is stored", nil, exceeded(1, 0), true},
		{"a moment later", exceeded(1, 0), exceeded(1, time.Minute), false},
		{"another generation", exceeded(1, 0), exceeded(2, time.Minute), true},
		{"after a while", exceeded(1, 0), exceeded(1, BudgetEvery), true},
		{"one that is dated in the future", exceeded(1, time.Hour), exceeded(1, 0), true},
		{"a damaged one", map[string]any{"exceededAt": int64(3)}, exceeded(1, 0), true},
	} {
		o := object(t, onePolicy)
		o.Object["status"] = map[string]any{"ready": true}
		if c.stored != nil {
			tree, ok := c.stored.(map[string]any)
			if !ok {
				var err error
				if tree, err = runtime.DefaultUnstructuredConverter.ToUnstructured(c.stored); err != nil {
					t.Fatal(err)
				}
			}
			o.Object["status"].(map[string]any)["budget"] = tree
		}
		rec := &patchRecorder{}
		written, err := (&Writer{Client: rec}).WriteBudget(context.Background(), o, c.want)
		if err != nil || written != c.written || written != (rec.body != "") {
			t.Errorf("%s: written %v, %v: %s", c.name, written, err, rec.body)
			continue
		}
		if !written {
			continue
		}
		var body struct {
			Metadata map[string]any
			Status   map[string]json.RawMessage
		}
		if err := json.Unmarshal([]byte(rec.body), &body); err != nil || len(body.Status) != 1 || body.Status["budget"] == nil || body.Metadata != nil {
			t.Errorf("%s: the patch is about more than the budget: %s", c.name, rec.body)
		}
	}
	long := exceeded(1, 0)
	long.Message = strings.Repeat("x", 1<<20)
	rec := &patchRecorder{}
	if _, err := (&Writer{Client: rec}).WriteBudget(context.Background(), object(t, onePolicy), long); err != nil || len(rec.body) > 10<<10 {
		t.Errorf("a message of 1 MiB makes a patch of %d bytes, %v", len(rec.body), err)
	}
}
