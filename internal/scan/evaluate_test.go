package scan

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
)

type tally struct{ rounds, again int }

func (c *tally) Reconciled(controller string) {
	if controller == Name {
		c.rounds++
	}
}

func (c *tally) Requeued(controller string, _ int) {
	if controller == Name {
		c.again++
	}
}

// sink fails while err is set.
type sink struct{ err error }

func (s *sink) Put(context.Context, policy.Outcome, report.Evaluated) (bool, error) {
	return s.err == nil, s.err
}

func (*sink) Prune(context.Context, func(schema.GroupKind) bool, Rules, func(schema.GroupKind, string) bool) error {
	return nil
}

// Each evaluation counts once, and again if its results could not be reported. Unchanged resources are not evaluated.
func TestEvaluatedAreCounted(t *testing.T) {
	p := rule(t, "", `resources: {kinds: [ConfigMap]}`, pattern)
	seen, to := &tally{}, &sink{err: errors.New("no answer")}
	s := New(Options{
		Observer: seen, Sink: to, Workers: 1, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Conf: func() policy.Conf { return policy.Conf{} },
		Eval: func(_ context.Context, in engine.Input) policy.Outcome { return policy.Outcome{Request: in.Request} },
	})
	l := newLoop(s)
	l.set.Store(&set{resource: Resource{served[2].GVR(), served[2].Kind}, snapshot: catalog.NewStatic([]*policy.Program{p}), programs: []*policy.Program{p}, revision: 1, changes: []change{{revision: 1}}})
	i, err := itemOf(`{"metadata": {"name": "c", "namespace": "a", "uid": "1"}}`, l.set.Load().resource.GVK())
	if err != nil {
		t.Fatal(err)
	}
	l.evaluateIfChanged(t.Context(), i, false)
	if *seen != (tally{1, 1}) {
		t.Errorf("failed: %+v", seen)
	}
	to.err = nil
	for range 2 {
		l.evaluateIfChanged(t.Context(), i, false)
	}
	if *seen != (tally{2, 1}) {
		t.Errorf("evaluated: %+v", seen)
	}
}
