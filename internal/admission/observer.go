package admission

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/ephor-dev/ephor/internal/engine"
	"github.com/ephor-dev/ephor/internal/policy"
)

// Observer is told what the server does, for metrics and traces. All methods are called by many goroutines, on the way
// of a review: they must be quick, and keep nothing that they are given.
type Observer interface {
	// HTTP wraps the server's handler.
	HTTP(http.Handler) http.Handler
	// Reviewed is called with the answer to a review; webhook is the kind of the configuration that sends such reviews.
	Reviewed(ctx context.Context, req *policy.Request, webhook string, d policy.Decision, took time.Duration)
	// Judged is called with every evaluation whose results count: not with those that are only made for their warnings.
	Judged(*policy.Outcome)
	// Later makes the context of what is done after the answer to the request of ctx: without its deadline.
	Later(ctx context.Context) context.Context
	// AuditDropped is called for each request whose auditing rules were not judged.
	AuditDropped()
}

// unobserved is the Observer of a server that has none.
type unobserved struct{}

func (unobserved) HTTP(next http.Handler) http.Handler { return next }
func (unobserved) Reviewed(context.Context, *policy.Request, string, policy.Decision, time.Duration) {
}
func (unobserved) Judged(*policy.Outcome)                {}
func (unobserved) Later(context.Context) context.Context { return context.Background() }
func (unobserved) AuditDropped()                         {}

// The kinds of webhook configurations, as Observer is told them.
const (
	mutatingWebhook   = "MutatingWebhookConfiguration"
	validatingWebhook = "ValidatingWebhookConfiguration"
)

// webhookOf is the kind of the configuration that sends reviews to the path.
func webhookOf(path string) string {
	base, _, _ := strings.Cut(path, finegrained)
	if strings.Contains(base, "mutate") {
		return mutatingWebhook
	}
	return validatingWebhook
}

// eval runs the engine with the clock that measures rules.
func (s *Server) eval(ctx context.Context, in engine.Input) policy.Outcome {
	in.Now = s.Now
	if s.Eval != nil {
		return s.Eval(ctx, in)
	}
	return engine.Eval(ctx, in)
}

// tell passes results on.
func (s *Server) tell(req *policy.Request, results []policy.Result, refused bool) {
	if s.Tell != nil && !req.DryRun && len(results) > 0 {
		s.Tell(req, results, refused)
	}
}
