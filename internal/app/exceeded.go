package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
	"github.com/ephor-dev/ephor/internal/intake"
	"github.com/ephor-dev/ephor/internal/lifecycle"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/status"
	"github.com/ephor-dev/ephor/internal/updaterequest/execute"
)

// exceeded says in the status of policies, and in the log, that they used up a budget. Every replica does so for what it sees
// itself: a policy's status is written at most once in status.BudgetEvery, by whichever replica is first.
type exceeded struct {
	policies *intake.Policies
	writer   *status.Writer
	log      *slog.Logger
	now      func() time.Time
	news     lifecycle.Trigger

	mu sync.Mutex
	// waiting are the policies whose status is to be written, written the time of the last write of each by this replica, both by
	// policy. Policies that are gone are forgotten.
	waiting map[policy.ID]*kyvernov1.BudgetStatus
	written map[policy.ID]lastWrite
}

type lastWrite struct {
	generation int64
	at         time.Time
}

func newExceeded(p *intake.Policies, c client.Client, log *slog.Logger) *exceeded {
	return &exceeded{
		policies: p, writer: &status.Writer{Client: c}, log: log, now: time.Now, news: lifecycle.NewTrigger(),
		waiting: map[policy.ID]*kyvernov1.BudgetStatus{}, written: map[policy.ID]lastWrite{},
	}
}

// exceededPause is the time between two rounds of writing.
const exceededPause = time.Second

// note takes down what an evaluation exceeded. It is called on the way of requests.
func (e *exceeded) note(list []policy.Exceeded) {
	now := e.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range list {
		key := x.Program.Identity()
		if t, ok := e.written[key]; ok && t.generation == x.Program.Generation && now.Sub(t.at) < status.BudgetEvery {
			continue
		}
		if w := e.waiting[key]; w != nil && w.ObservedGeneration >= x.Program.Generation {
			continue
		}
		e.waiting[key] = &kyvernov1.BudgetStatus{
			ExceededAt: metav1.NewTime(now), ObservedGeneration: x.Program.Generation, Rule: x.Rule.Name, Message: x.Message,
		}
		e.news.Fire()
	}
}

// evaluated is note for those who are given outcomes.
func (e *exceeded) evaluated(next func(*policy.Outcome)) func(*policy.Outcome) {
	return func(out *policy.Outcome) {
		if len(out.Exceeded) > 0 {
			e.note(out.Exceeded)
		}
		next(out)
	}
}

// worked is note for the outcomes of background work, which go on to the observer.
func (e *exceeded) worked(next execute.WorkerObserver) execute.WorkerObserver {
	return exceededWork{next, e}
}

type exceededWork struct {
	execute.WorkerObserver
	over *exceeded
}

// Evaluated implements execute.WorkerObserver.
func (w exceededWork) Evaluated(out *policy.Outcome) {
	w.over.evaluated(w.WorkerObserver.Evaluated)(out)
}

func (e *exceeded) task() lifecycle.Task {
	return lifecycle.Task{Name: "policy-budgets", Wake: e.news, Once: e.once}
}

// once writes what is waiting. What could not be written waits on.
func (e *exceeded) once(ctx context.Context) (time.Duration, error) {
	e.mu.Lock()
	waiting := e.waiting
	e.waiting = map[policy.ID]*kyvernov1.BudgetStatus{}
	e.mu.Unlock()
	if len(waiting) == 0 {
		return 0, nil
	}
	objects, _ := e.policies.All()
	var errs []error
	for key, want := range waiting {
		object := objects[key]
		if object == nil {
			continue
		}
		written, err := e.writer.WriteBudget(ctx, object, want)
		if err != nil {
			errs = append(errs, err)
		}
		if written {
			e.log.Warn("policy used up its budget", "policy", key.String(), "rule", want.Rule, "message", want.Message)
		}
		e.mu.Lock()
		if err == nil {
			e.written[key] = lastWrite{want.ObservedGeneration, want.ExceededAt.Time}
		} else if e.waiting[key] == nil {
			e.waiting[key] = want
		}
		e.mu.Unlock()
	}
	e.mu.Lock()
	for key := range e.written {
		if objects[key] == nil {
			delete(e.written, key)
		}
	}
	e.mu.Unlock()
	return exceededPause, errors.Join(errs...)
}
