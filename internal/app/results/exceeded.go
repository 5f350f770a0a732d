package results

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

// Exceeded reports exceeded budgets in the status of policies and in the log. Every replica reports its own evaluations. The first replica
// writes a policy's status, at most once in status.BudgetEvery.
type Exceeded struct {
	policies *intake.Policies
	writer   *status.Writer
	log      *slog.Logger
	now      func() time.Time
	news     lifecycle.Trigger

	mu sync.Mutex
	// waiting holds the policies whose status must be written. written holds the time at which this replica last wrote the status of
	// each policy. Deleted policies are removed from both.
	waiting map[policy.ID]*kyvernov1.BudgetStatus
	written map[policy.ID]lastWrite
}

type lastWrite struct {
	generation int64
	at         time.Time
}

// NewExceeded returns an Exceeded that writes with the client.
func NewExceeded(p *intake.Policies, c client.Client, log *slog.Logger) *Exceeded {
	return &Exceeded{
		policies: p, writer: &status.Writer{Client: c}, log: log, now: time.Now, news: lifecycle.NewTrigger(),
		waiting: map[policy.ID]*kyvernov1.BudgetStatus{}, written: map[policy.ID]lastWrite{},
	}
}

// exceededPause is the time between two rounds of writing.
const exceededPause = time.Second

// Note records exceeded budgets until Task writes them. Requests wait for Note, so it does not write itself.
func (e *Exceeded) Note(list []policy.Exceeded) {
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

// Evaluated returns a function that calls Note for each outcome, and then next.
func (e *Exceeded) Evaluated(next func(*policy.Outcome)) func(*policy.Outcome) {
	return func(out *policy.Outcome) {
		if len(out.Exceeded) > 0 {
			e.Note(out.Exceeded)
		}
		next(out)
	}
}

// Worked returns an observer that calls Note for the outcomes of background work, and then next.
func (e *Exceeded) Worked(next execute.WorkerObserver) execute.WorkerObserver {
	return exceededWork{next, e}
}

type exceededWork struct {
	execute.WorkerObserver
	over *Exceeded
}

// Evaluated implements execute.WorkerObserver.
func (w exceededWork) Evaluated(out *policy.Outcome) {
	w.over.Evaluated(w.WorkerObserver.Evaluated)(out)
}

// Task returns the task that writes the recorded budgets.
func (e *Exceeded) Task() lifecycle.Task {
	return lifecycle.Task{Name: "policy-budgets", Wake: e.news, Once: e.once}
}

// once writes the waiting statuses. It retries failed writes.
func (e *Exceeded) once(ctx context.Context) (time.Duration, error) {
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
