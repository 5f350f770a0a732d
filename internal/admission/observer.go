package admission

import (
	"context"
	"net/http"
	"time"

	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/secretpath"
)

// Observer observes the server, for metrics and traces. Its methods are called concurrently before an answer: they must be quick, and must
// not keep any of their arguments.
type Observer interface {
	// HTTP wraps the server's handler.
	HTTP(http.Handler) http.Handler
	// Reviewed is called with the answer to a review; webhook is the kind of the configuration that sends such reviews.
	Reviewed(ctx context.Context, req *policy.Request, webhook string, d policy.Decision, took time.Duration)
	// Evaluated is called with every evaluation whose results count, but not with those that only produce warnings.
	Evaluated(*policy.Outcome)
	// Later returns the context for work after the answer to the request of ctx: without its deadline.
	Later(ctx context.Context) context.Context
	// AuditDropped is called for each request whose auditing rules were not evaluated.
	AuditDropped()
	// Path is called for each request with a path that is not proved.
	Path(secretpath.Verdict)
}

// unobserved is the Observer of a server that has none.
type unobserved struct{}

func (unobserved) HTTP(next http.Handler) http.Handler { return next }
func (unobserved) Reviewed(context.Context, *policy.Request, string, policy.Decision, time.Duration) {
}
func (unobserved) Evaluated(*policy.Outcome)             {}
func (unobserved) Later(context.Context) context.Context { return context.Background() }
func (unobserved) AuditDropped()                         {}
func (unobserved) Path(secretpath.Verdict)               {}

// The kinds of webhook configurations for Observer.
const (
	mutatingWebhook   = "MutatingWebhookConfiguration"
	validatingWebhook = "ValidatingWebhookConfiguration"
)

// webhook returns the kind of the configuration that sends reviews to the row.
func (r *route) webhook() string {
	if r.mutating {
		return mutatingWebhook
	}
	return validatingWebhook
}

// eval calls the engine with the clock that measures rules. Unless in has its own Pace, namespaced policies wait for their share of
// processor time.
func (s *Server) eval(ctx context.Context, in engine.Input) policy.Outcome {
	in.Now = s.Now
	if in.Pace == nil {
		in.Pace = s.pace
	}
	if in.PaceException == nil {
		in.PaceException = s.paceException
	}
	run := s.Eval
	if run == nil {
		run = engine.Eval
	}
	out := run(ctx, in)
	if len(out.Exceeded) > 0 && s.Exceeded != nil {
		s.Exceeded(out.Exceeded)
	}
	return out
}

// report passes results to Report.
func (s *Server) report(req *policy.Request, results []policy.Result, refused bool) {
	if s.Report != nil && !req.DryRun && len(results) > 0 {
		s.Report(req, results, refused)
	}
}
