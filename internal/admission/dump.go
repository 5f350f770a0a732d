package admission

import (
	"context"
	"log/slog"
	"maps"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// dump logs a review and its answer, for --dumpPayload, without the content of Secrets.
func (s *Server) dump(ctx context.Context, path string, req *policy.Request, res *response) {
	if !s.DumpPayload || !s.Log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	user := map[string]any{}
	if req.User != nil {
		user = map[string]any{"username": req.User.Username, "groups": req.User.Groups}
	}
	s.Log.LogAttrs(ctx, slog.LevelDebug, "review", slog.String("path", path), slog.String("uid", req.UID),
		slog.String("operation", string(req.Operation)), slog.String("kind", req.RequestGVK.String()), slog.String("subresource", req.Subresource),
		slog.String("namespace", req.Namespace), slog.String("name", req.Name), slog.Bool("dryRun", req.DryRun), slog.String("user", value.JSON(user)),
		slog.String("object", dumped(req.Object)), slog.String("oldObject", dumped(req.OldObject)),
		slog.Bool("allowed", res.allowed), slog.String("message", res.message), slog.String("patch", s.dumpedPatch(req, res)), slog.Any("warnings", res.warnings))
}

// redacted replaces removed values.
const redacted = "**REDACTED**"

func dumped(d *value.Doc) string {
	object, err := d.Map()
	switch {
	case err != nil:
		return "unreadable: " + err.Error()
	case object == nil:
		return ""
	}
	return value.JSON(withoutSecrets(object))
}

// dumpedPatch returns the patch; for a Secret it returns a placeholder, since the patch may contain any part of it.
func (s *Server) dumpedPatch(req *policy.Request, res *response) string {
	if res.patch != nil && req.GVK.Kind == "Secret" && req.GVK.Group == "" {
		return redacted
	}
	return string(res.patch)
}

// lastApplied is the annotation in which kubectl stores a copy of the object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// withoutSecrets returns the object without the content of a Secret: its values, and the copy in kubectl's annotation. It
// returns other objects unchanged.
func withoutSecrets(object map[string]any) map[string]any {
	if object["kind"] != "Secret" || object["apiVersion"] != "v1" {
		return object
	}
	out := maps.Clone(object)
	for _, field := range []string{"data", "stringData"} {
		if content, ok := out[field].(map[string]any); ok {
			hidden := make(map[string]any, len(content))
			for k := range content {
				hidden[k] = redacted
			}
			out[field] = hidden
		}
	}
	if metadata, ok := out["metadata"].(map[string]any); ok {
		if annotations, ok := metadata["annotations"].(map[string]any); ok && annotations[lastApplied] != nil {
			metadata, annotations = maps.Clone(metadata), maps.Clone(annotations)
			annotations[lastApplied] = redacted
			metadata["annotations"], out["metadata"] = annotations, metadata
		}
	}
	return out
}
