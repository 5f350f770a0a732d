package admission

import (
	"context"

	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/policyreview"
)

// The handlers for reviews of policies and related kinds.

func (s *Server) reviewPolicy(ctx context.Context, req *policy.Request, _ place) (response, error) {
	return responseOf(s.review.Policy(ctx, req))
}

func (s *Server) reviewCleanup(ctx context.Context, req *policy.Request, _ place) (response, error) {
	return responseOf(s.review.Cleanup(ctx, req))
}

func (s *Server) reviewException(ctx context.Context, req *policy.Request, _ place) (response, error) {
	return responseOf(s.review.Exception(ctx, req))
}

func (s *Server) reviewGlobalContext(ctx context.Context, req *policy.Request, _ place) (response, error) {
	return responseOf(s.review.GlobalContext(ctx, req))
}

func (s *Server) reviewTTL(ctx context.Context, req *policy.Request, _ place) (response, error) {
	return responseOf(s.review.TTL(ctx, req))
}

func responseOf(a policyreview.Answer) (response, error) {
	return response{allowed: a.Allowed, message: a.Message, warnings: a.Warnings}, nil
}
