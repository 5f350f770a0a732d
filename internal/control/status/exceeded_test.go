package status

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/policy"
	policystatus "ephor.invalid/ephor/internal/status"
)

// statusPatches counts the patches of statuses, and fails while err is set.
type statusPatches struct {
	client.Client // not called
	n             int
	err           error
}

func (s *statusPatches) Status() client.SubResourceWriter { return patchedStatus{rec: s} }

type patchedStatus struct {
	client.SubResourceWriter // not called
	rec                      *statusPatches
}

func (w patchedStatus) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	w.rec.n++
	return w.rec.err
}

// observedWork counts outcomes.
type observedWork struct{ n *int }

func (o observedWork) Evaluated(*policy.Outcome) { *o.n++ }
func (o observedWork) Requeued(string, int)      {}
func (o observedWork) Dropped(string)            {}
func (o observedWork) Reconciled(string)         {}

// T8: an exceeded budget is written and logged at intervals for each policy and generation. A failed write is retried, and a deleted policy
// is removed.
func TestT8ExceededBudgetsAreWritten(t *testing.T) {
	log := &bytes.Buffer{}
	policies := intake.NewPolicies(intake.PolicyOptions{Kinds: intake.Requests(), Catalog: catalog.New(), Log: slog.New(slog.DiscardHandler)})
	handler := policies.Watches()[0].Handler
	stored := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kyverno.io/v1", "kind": "Policy", "metadata": map[string]any{"name": "p", "namespace": "team", "generation": int64(1)},
		"spec": map[string]any{"rules": []any{}},
	}}
	handler.OnAdd(stored, true)
	writes := &statusPatches{}
	e := NewExceeded(policies, writes, slog.New(slog.NewTextHandler(log, nil)))
	now := time.Unix(1000, 0)
	e.now = func() time.Time { return now }
	program := &policy.Program{Kind: "Policy", Namespace: "team", Name: "p", Generation: 1}
	note := func(p *policy.Program) {
		out := &policy.Outcome{Exceeded: []policy.Exceeded{{Program: p, Rule: &policy.Rule{Name: "r"}, Message: "budget exhausted"}}}
		seen := 0
		e.Worked(observedWork{&seen}).Evaluated(out)
		if seen != 1 {
			t.Errorf("the observer of work sees the outcome %d times", seen)
		}
	}
	round := func(what string, wantWrites, wantLines int, fails bool) {
		t.Helper()
		writes.n = 0
		log.Reset()
		if _, err := e.once(t.Context()); (err != nil) != fails {
			t.Errorf("%s: %v", what, err)
		}
		if lines := strings.Count(log.String(), "policy used up its budget"); writes.n != wantWrites || lines != wantLines {
			t.Errorf("%s: %d writes and %d lines, want %d and %d", what, writes.n, lines, wantWrites, wantLines)
		}
	}
	round("nothing happened", 0, 0, false)
	note(program)
	note(program)
	writes.err = errors.New("the API server is away")
	round("the write fails", 1, 0, true)
	writes.err = nil
	round("it is tried again", 1, 1, false)
	note(program)
	round("a moment later", 0, 0, false)
	next := *program
	next.Generation = 2
	note(&next)
	round("another generation", 1, 1, false)
	now = now.Add(policystatus.BudgetEvery)
	note(&next)
	round("after a while", 1, 1, false)
	again := stored.DeepCopy()
	again.SetUID("second")
	handler.OnAdd(again, false)
	now = now.Add(policystatus.BudgetEvery)
	note(&next)
	round("a note about the former policy of that name", 0, 0, false)
	second := *program
	second.UID = "second"
	note(&next)
	note(&second)
	round("another policy of the same name", 1, 1, false)
	handler.OnDelete(again)
	now = now.Add(policystatus.BudgetEvery)
	note(&next)
	round("the policy is gone", 0, 0, false)
	if len(e.written) != 0 || len(e.waiting) != 0 {
		t.Errorf("a policy that is gone is remembered: %v, %v", e.written, e.waiting)
	}
}
