package admission

import (
	"context"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/policyreview"
	"ephor.invalid/ephor/internal/value"
)

// The handlers for reviews of policies and related kinds.

func (s *Server) reviewPolicy(ctx context.Context, req *policy.Request, _ boundRoute) (response, error) {
	return s.inTurn(ctx, req, s.review.Policy)
}

func (s *Server) reviewCleanup(ctx context.Context, req *policy.Request, _ boundRoute) (response, error) {
	return s.inTurn(ctx, req, s.review.Cleanup)
}

func (s *Server) reviewException(ctx context.Context, req *policy.Request, _ boundRoute) (response, error) {
	return s.inTurn(ctx, req, s.review.Exception)
}

// stepsPerByte is the work of reviewing a byte of a policy, in steps of the meter.
const stepsPerByte = 100

// inTurn reviews the objects of a namespace one after the other, and charges its share of processor time. Dry runs count, too. Cluster-wide
// objects, which only administrators write, never wait.
func (s *Server) inTurn(ctx context.Context, req *policy.Request, review func(context.Context, *policy.Request) policyreview.Answer) (response, error) {
	if req.Namespace == "" || req.Subresource != "" || req.Operation == policy.Delete {
		return responseOf(review(ctx, req))
	}
	object, err := req.Object.Map()
	if err != nil {
		return responseOf(review(ctx, req)) // the review reports it
	}
	done, err := s.shares.Turn(ctx, req.Namespace, stepsPerByte*int64(value.TextLength(object, maxBody)))
	if err != nil {
		return response{message: "the object cannot be reviewed now: " + err.Error()}, nil
	}
	defer done()
	return responseOf(review(ctx, req))
}

func (s *Server) reviewGlobalContext(ctx context.Context, req *policy.Request, _ boundRoute) (response, error) {
	return responseOf(s.review.GlobalContext(ctx, req))
}

func (s *Server) reviewTTL(ctx context.Context, req *policy.Request, _ boundRoute) (response, error) {
	return responseOf(s.review.TTL(ctx, req))
}

func responseOf(a policyreview.Answer) (response, error) {
	return response{allowed: a.Allowed, message: a.Message, warnings: a.Warnings}, nil
}
