package status

import (
	"context"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/observe"
	"ephor.invalid/ephor/internal/policy"
	policystatus "ephor.invalid/ephor/internal/status"
)

// ExceptionErrors reports exceptions that could not be evaluated: each time in a metric, and at most once in policystatus.BudgetEvery in the status
// of the exception, in an event and in the log. Every replica reports its own evaluations.
type ExceptionErrors struct {
	notes[policy.ExceptionID, exceptionError]
	writer     *policystatus.Writer
	events     event.Recorder
	controller string // of the events
	metrics    *observe.Metrics
	log        *slog.Logger
}

type exceptionError struct {
	exception *policy.Exception
	status    *kyvernov1.NotEvaluatedStatus
}

// NewExceptionErrors returns ExceptionErrors that write with the client. controller is the name of the controller in events.
func NewExceptionErrors(c client.Client, events event.Recorder, controller string, m *observe.Metrics, log *slog.Logger) *ExceptionErrors {
	return &ExceptionErrors{
		notes: newNotes[policy.ExceptionID, exceptionError](), writer: &policystatus.Writer{Client: c}, events: events, controller: controller, metrics: m, log: log,
	}
}

// Eval returns an evaluator that records the exceptions that next could not evaluate, until Row reports them.
func (e *ExceptionErrors) Eval(next func(context.Context, engine.Input) policy.Outcome) func(context.Context, engine.Input) policy.Outcome {
	return func(ctx context.Context, in engine.Input) policy.Outcome {
		out := next(ctx, in)
		for _, x := range out.ExceptionErrors {
			e.record(x)
		}
		return out
	}
}

func (e *ExceptionErrors) record(x policy.ExceptionError) {
	e.metrics.ExceptionNotEvaluated(x.Exception)
	about := x.Program.Kind + " " + x.Program.Key()
	added := e.add(x.Exception.ID(), x.Exception.UID, x.Exception.Generation, func(now time.Time) exceptionError {
		return exceptionError{x.Exception, &kyvernov1.NotEvaluatedStatus{
			At: metav1.NewTime(now), ObservedGeneration: x.Exception.Generation, Policy: about, Rule: x.Rule.Name, Message: x.Message,
		}}
	})
	if !added {
		return
	}
	e.log.Warn("exception cannot be evaluated", "exception", x.Exception.Key(), "group", x.Exception.ID().Group, "policy", about, "rule", x.Rule.Name, "message", x.Message)
	e.events.Record(event.Event{
		Regarding: event.ExceptionReference(x.Exception), Reason: event.PolicyError, Action: event.None, Controller: e.controller,
		Note: "the exception cannot be evaluated for a request: " + about + "/" + x.Rule.Name + ": " + x.Message,
	})
}

// Row returns the row that writes the statuses.
func (e *ExceptionErrors) Row() controller.Row {
	return controller.Row{Name: "exception-errors", Sources: []controller.Source{e.news}, Reconcile: controller.Singleton(e.once)}
}

// once writes the waiting statuses. It retries failed writes.
func (e *ExceptionErrors) once(ctx context.Context) (time.Duration, error) {
	return e.write(func(_ policy.ExceptionID, _ string, x exceptionError) (exists bool, err error) {
		_, err = e.writer.WriteException(ctx, x.exception, x.status)
		return true, err // even without a status, it is reported at most once in that time
	})
}
