package exempt

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// RequestOf returns the request with a controller of its object in the place of the object, for exceptions that cover workloads.
func RequestOf(r *policy.Request, owner map[string]any) *policy.Request {
	apiVersion, _ := owner["apiVersion"].(string)
	kind, _ := owner["kind"].(string)
	metadata, _ := owner["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	return &policy.Request{Review: policy.Review{
		Origin: r.Origin, UID: r.UID, Operation: r.Operation, GVK: gvk, RequestGVK: gvk, GVR: gvk.GroupVersion().WithResource(kinds.Plural(kind)),
		Namespace: r.Namespace, Name: name, Object: value.Of(owner), User: r.User, DryRun: r.DryRun, Conf: r.Conf,
		ResolveRoles: r.Roles, ResolveNamespace: r.NamespaceLabels, Trace: r.Trace, Tape: r.Tape,
	}}
}
