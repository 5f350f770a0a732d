package status

import (
	"context"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/policy"
	policystatus "ephor.invalid/ephor/internal/status"
	"ephor.invalid/ephor/internal/updaterequest/execute"
)

// Exceeded reports exceeded budgets in the status of policies and in the log. Every replica reports its own evaluations. The first replica
// writes a policy's status, at most once in policystatus.BudgetEvery.
type Exceeded struct {
	notes[policy.ID, *kyvernov1.BudgetStatus]
	policies *intake.Policies
	writer   *policystatus.Writer
	log      *slog.Logger
}

// NewExceeded returns an Exceeded that writes with the client.
func NewExceeded(p *intake.Policies, c client.Client, log *slog.Logger) *Exceeded {
	return &Exceeded{notes: newNotes[policy.ID, *kyvernov1.BudgetStatus](), policies: p, writer: &policystatus.Writer{Client: c}, log: log}
}

// Record keeps exceeded budgets until the row writes them: requests wait for it.
func (e *Exceeded) Record(list []policy.Exceeded) {
	for _, x := range list {
		e.add(x.Program.Identity(), x.Program.UID, x.Program.Generation, func(now time.Time) *kyvernov1.BudgetStatus {
			return &kyvernov1.BudgetStatus{
				ExceededAt: metav1.NewTime(now), ObservedGeneration: x.Program.Generation, Rule: x.Rule.Name, Message: x.Message,
			}
		})
	}
}

// Evaluated returns a function that records the exceeded budgets of each outcome, and then calls next.
func (e *Exceeded) Evaluated(next func(*policy.Outcome)) func(*policy.Outcome) {
	return func(out *policy.Outcome) {
		if len(out.Exceeded) > 0 {
			e.Record(out.Exceeded)
		}
		next(out)
	}
}

// Worked returns an observer that records the exceeded budgets of background work, and then passes everything to next.
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

// Row returns the row that writes the recorded budgets.
func (e *Exceeded) Row() controller.Row {
	return controller.Row{Name: "policy-budgets", Sources: []controller.Source{e.news}, Reconcile: controller.Singleton(e.once)}
}

// once writes the waiting statuses. It retries failed writes.
func (e *Exceeded) once(ctx context.Context) (time.Duration, error) {
	objects, _ := e.policies.All()
	return e.write(func(key policy.ID, uid string, want *kyvernov1.BudgetStatus) (exists bool, err error) {
		object := objects[key]
		if object == nil || string(object.GetUID()) != uid {
			return false, nil
		}
		written, err := e.writer.WriteBudget(ctx, object, want)
		if written {
			e.log.Warn("policy used up its budget", "policy", key.String(), "rule", want.Rule, "message", want.Message)
		}
		return true, err
	})
}
