package admission

import (
	"context"
	"errors"
	"fmt"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Decode decodes an AdmissionReview with the whole object.
func Decode(review string) (*policy.Request, error) { return decodeReview(review, nil) }

// DecodePart decodes an AdmissionReview. reads returns the fields of the object to decode, from the kind and operation that precede it; nil
// for all fields.
func DecodePart(review string, reads func(*policy.Request) *value.Fields) (*policy.Request, error) {
	return decodeReview(review, reads)
}

// Answered is the answer to a review, with the results that the API server does not see.
type Answered struct {
	policy.Decision
	// Results are the results of all rules, including the auditing ones.
	Results []policy.Result
	// Object is the object after the mutation; nil if nothing was changed. Patch turns the object of the request into it.
	Object *value.Doc
	Patch  []byte
}

// errNoPath is the error for a path at which no policies are evaluated.
var errNoPath = errors.New("no policies are evaluated at the path")

// Answer answers a request at a path as ServeHTTP does, and evaluates the auditing rules before it returns. It is for requests that were
// answered before, and records nothing. It is safe for concurrent use, and changes only the lookups of req.
func (s *Server) Answer(ctx context.Context, path string, req *policy.Request) (Answered, error) {
	row := s.routes.find(path)
	if row == nil || row.Stages == 0 {
		return Answered{}, fmt.Errorf("%w %s", errNoPath, path)
	}
	bounded := withTimeout(ctx, s.Timeout)
	defer bounded.end()
	res, err := row.handle(s, bounded, req, boundRoute{row, s.snapshot()})
	if err != nil {
		return Answered{}, err
	}
	out := Answered{Decision: policy.Decision{Allowed: res.allowed, Message: res.message, Warnings: res.warnings}, Results: res.results, Object: res.object, Patch: res.patch}
	if res.later != nil {
		after := s.outcome(ctx, res.later)
		out.Results = append(out.Results[:len(out.Results):len(out.Results)], after.Results...)
	}
	return out, nil
}
