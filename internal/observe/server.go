package observe

import (
	"context"
	"net/http"
	"time"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/secretpath"
)

// Server observes an admission server with metrics and traces. Either may be nil.
type Server struct {
	Metrics *Metrics
	Tracer  *Tracer
}

// HTTP wraps the server's handler.
func (s Server) HTTP(next http.Handler) http.Handler { return s.Metrics.HTTP(s.Tracer.HTTP(next)) }

// Reviewed is called with each answer.
func (s Server) Reviewed(ctx context.Context, req *policy.Request, webhook string, d policy.Decision, took time.Duration) {
	s.Metrics.Reviewed(req, webhook, d.Allowed, took)
	s.Tracer.Reviewed(ctx, req, d)
}

// Evaluated is called for each evaluation that is counted.
func (s Server) Evaluated(out *policy.Outcome) { s.Metrics.Evaluated(out) }

// AuditDropped is called for each request whose audit rules were not evaluated.
func (s Server) AuditDropped() { s.Metrics.AuditDropped() }

// Path is called for each request whose path does not prove that the API server sent it.
func (s Server) Path(v secretpath.Verdict) { s.Metrics.Path(v) }

// Later returns the context for work after the request of ctx is answered.
func (s Server) Later(ctx context.Context) context.Context { return s.Tracer.Later(ctx) }
