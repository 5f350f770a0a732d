package status

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/observe"
	"ephor.invalid/ephor/internal/policy"
	policystatus "ephor.invalid/ephor/internal/status"
)

// recordedPatches records the patches of statuses, and fails while err is set.
type recordedPatches struct {
	client.Client           // not called
	uid           types.UID // of the stored exception
	lines         []string
	err           error
}

func (s *recordedPatches) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	o.SetUID(s.uid)
	return nil
}

func (s *recordedPatches) Status() client.SubResourceWriter { return patchRecorder{rec: s} }

type patchRecorder struct {
	client.SubResourceWriter // not called
	rec                      *recordedPatches
}

func (w patchRecorder) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	body, _ := p.Data(o)
	w.rec.lines = append(w.rec.lines, fmt.Sprintf("%s %s/%s %s", o.GetObjectKind().GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName(), body))
	return w.rec.err
}

// recordedEvents records events.
type recordedEvents struct{ all []event.Event }

func (r *recordedEvents) Record(e event.Event) { r.all = append(r.all, e) }

// T25: an exception that could not be evaluated is counted each time. Its status, an event and the log name it at intervals, and again for
// another generation. A failed write is retried.
func TestT25ExceptionsAreReported(t *testing.T) {
	writes, events, log := &recordedPatches{uid: "u"}, &recordedEvents{}, &bytes.Buffer{}
	metrics := observe.NewMetrics(observe.Options{})
	e := NewExceptionErrors(writes, events, event.AdmissionController, metrics, slog.New(slog.NewTextHandler(log, nil)))
	now := time.Unix(1000, 0)
	e.now = func() time.Time { return now }
	exception := &policy.Exception{APIVersion: "policies.kyverno.io/v1", Kind: "PolicyException", Namespace: "x", Name: "broken", UID: "u", Generation: 1}
	evaluate := func() {
		out := policy.Outcome{ExceptionErrors: []policy.ExceptionError{{
			Exception: exception, Program: &policy.Program{Kind: "ValidatingPolicy", Name: "p"}, Rule: &policy.Rule{Name: "r"}, Message: "no such key: team",
		}}}
		e.Eval(func(context.Context, engine.Input) policy.Outcome { return out })(t.Context(), engine.Input{})
	}
	round := func(what string, wantWrites, wantEvents int, fails bool) {
		t.Helper()
		writes.lines = nil
		if _, err := e.once(t.Context()); (err != nil) != fails {
			t.Errorf("%s: %v", what, err)
		}
		if lines := strings.Count(log.String(), "exception cannot be evaluated"); len(writes.lines) != wantWrites || len(events.all) != wantEvents || lines != wantEvents {
			t.Errorf("%s: %d writes, %d events and %d lines, want %d and %d of both others", what, len(writes.lines), len(events.all), lines, wantWrites, wantEvents)
		}
		events.all = nil
		log.Reset()
	}
	round("nothing happened", 0, 0, false)
	evaluate()
	evaluate()
	if a := events.all[0]; a.Regarding.Name != "broken" || a.Regarding.UID != "u" || a.Reason != event.PolicyError || !strings.Contains(a.Note, "ValidatingPolicy p/r: no such key: team") {
		t.Errorf("the event is %+v", a)
	}
	writes.err = errors.New("the API server is away")
	round("the write fails", 1, 1, true)
	writes.err = nil
	round("it is tried again", 1, 0, false)
	evaluate()
	round("a moment later", 0, 0, false)
	exception = &policy.Exception{APIVersion: "policies.kyverno.io/v1", Kind: "PolicyException", Namespace: "x", Name: "broken", UID: "v", Generation: 1}
	evaluate()
	round("another exception of the same name, which is deleted already", 0, 1, false)
	now = now.Add(policystatus.BudgetEvery)
	writes.uid = "v"
	evaluate()
	round("another exception of the same name", 1, 1, false)
	exception = &policy.Exception{APIVersion: "policies.kyverno.io/v1", Kind: "PolicyException", Namespace: "x", Name: "broken", UID: "v", Generation: 2}
	evaluate()
	writes.lines = nil
	if _, err := e.once(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = `PolicyException.policies.kyverno.io x/broken {"status":{"notEvaluated":{"at":"1970-01-01T00:21:40Z","observedGeneration":2,"policy":"ValidatingPolicy p","rule":"r","message":"no such key: team"}}}`
	if got := strings.Join(writes.lines, "\n"); got != want {
		t.Errorf("written is %s", got)
	}
	events.all = nil
	log.Reset()
	now = now.Add(policystatus.BudgetEvery)
	evaluate()
	round("after a while", 1, 1, false)
	answer := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	if !regexp.MustCompile(`ephor_policy_exception_errors_total\{exception_name="broken",exception_namespace="x".*\} 7\n`).MatchString(answer.Body.String()) {
		t.Error("the metric does not count 7 evaluations")
	}
}
