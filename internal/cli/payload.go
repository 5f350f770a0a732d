package cli

import (
	"fmt"
	"os"

	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/source"
	"github.com/ephor-dev/ephor/internal/value"
)

// payload is a document that need not be an object of a cluster.
type payload struct {
	path  string
	value map[string]any
}

// readPayloads reads files of one object each.
func readPayloads(paths []string) ([]payload, error) {
	var out []payload
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("failed to load the payload: %w", err)
		}
		docs := source.Split(path, string(text))
		if len(docs) != 1 {
			return nil, fmt.Errorf("failed to load the payload: %s has %d documents; one object is needed", path, len(docs))
		}
		v, diags := docs[0].Value(source.Floats)
		if diags.HasErrors() {
			return nil, mistaken("failed to load the payload", diags)
		}
		object, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("failed to load the payload: the top level of %s is not an object", path)
		}
		out = append(out, payload{path, object})
	}
	return out, nil
}

// payload evaluates the policies for documents on one.
func (j *evaluate) payload(p payload) evaluated {
	by := j.evaluator.ofDocuments()
	answers, err := by.all(j.ctx, p.value)
	return j.gather(by, source.Object{Value: p.value, Pos: func(string) diag.Position { return diag.Position{File: p.path} }}, answers, err)
}

// ofDocuments is e for documents that need not be objects of a cluster.
func (e *evaluator) ofDocuments() *evaluator {
	out := *e
	out.documents = true
	return &out
}

// documentRequest is the request by which a document is evaluated.
func documentRequest(o map[string]any) *policy.Request {
	return &policy.Request{Origin: policy.FromCLI, Operation: policy.Create, Payload: true, Object: value.Of(o)}
}
