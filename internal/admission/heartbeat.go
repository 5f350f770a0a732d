package admission

import (
	"context"
	"time"

	"ephor.invalid/ephor/internal/jsonpointer"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// The heartbeat lease, and the annotation that proves that an update passed through this server.
const (
	HeartbeatLease      = "kyverno-health"
	HeartbeatAnnotation = "kyverno.io/last-request-time"
)

// heartbeat writes the time into the heartbeat lease when an update of it is reviewed; it does not change other leases.
func (s *Server) heartbeat(_ context.Context, req *policy.Request, _ boundRoute) (response, error) {
	res := response{allowed: true}
	if req.Name != HeartbeatLease || req.Namespace != s.Namespace || req.Object == nil {
		return res, nil
	}
	lease, err := req.Object.Map()
	if err != nil {
		return res, err
	}
	meta, _ := lease["metadata"].(map[string]any)
	now := s.Now().UTC().Format(time.RFC3339)
	op := map[string]any{"op": "add", "path": "/metadata/annotations", "value": map[string]any{HeartbeatAnnotation: now}}
	if annotations, ok := meta["annotations"].(map[string]any); ok && len(annotations) > 0 {
		// The operation add replaces an existing value.
		op = map[string]any{"op": "add", "path": "/metadata/annotations/" + jsonpointer.Escape(HeartbeatAnnotation), "value": now}
	}
	res.patch = value.AppendJSON(nil, []any{op})
	return res, nil
}
