package rule

import (
	"context"
	"fmt"

	"github.com/ephor-dev/ephor/internal/celenv"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/world"
)

// CELInput gives CEL expressions what they see of a request: object, oldObject and request. The namespace, parameters
// and authorizer are for those who have a world to add.
func CELInput(r *policy.Request) (*celenv.Input, error) {
	object, err := r.Object.Value()
	if err != nil {
		return nil, err
	}
	old, err := r.OldObject.Value()
	if err != nil {
		return nil, err
	}
	return &celenv.Input{Object: object, OldObject: old, Request: func() (any, error) { return celRequest(r), nil }}, nil
}

// celRequest is the variable request, as the API server makes it of an AdmissionRequest: without the objects. What has
// no value is not there, but for the user's name and groups, which are empty where nobody asked.
func celRequest(r *policy.Request) map[string]any {
	asked := r.AskedFor()
	out := map[string]any{
		"kind": policy.KindDocument(r.RequestGVK), "requestKind": policy.KindDocument(asked.GVK),
		"resource": policy.ResourceDocument(r.GVR), "requestResource": policy.ResourceDocument(asked.GVR),
		"name": r.Name, "operation": string(r.Operation), "dryRun": r.DryRun, "options": r.Options,
	}
	if r.Namespace != "" {
		out["namespace"] = r.Namespace
	}
	if r.Subresource != "" {
		out["subResource"] = r.Subresource
	}
	if asked.Subresource != "" {
		out["requestSubResource"] = asked.Subresource
	}
	user := map[string]any{"username": "", "groups": []any{}}
	if u := r.User; u != nil {
		user["username"], user["groups"] = u.Username, textList(u.Groups)
		if u.UID != "" {
			user["uid"] = u.UID
		}
		if len(u.Extra) > 0 {
			extra := make(map[string]any, len(u.Extra))
			for k, v := range u.Extra {
				extra[k] = textList(v)
			}
			user["extra"] = extra
		}
	}
	out["userInfo"] = user
	return out
}

func textList(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}

// celInput adds what the world of the scope knows: the namespace, and the requester's rights.
func celInput(s *policy.Scope) (*celenv.Input, error) {
	r := s.Request
	in, err := CELInput(r)
	if err != nil {
		return nil, err
	}
	in.Trace = s.Env.Trace
	in.Namespace = func() (any, error) {
		ns, err := namespaceObject(s)
		if err != nil {
			return nil, fmt.Errorf("Error getting the resource's namespace: %w", err) //nolint:staticcheck // the reference's words
		}
		return ns, nil
	}
	if w := s.Env.World; w.Access != nil && r.User != nil {
		in.Authorizer = &celenv.Authorizer{
			Access: w.Access, Username: r.User.Username, UID: r.User.UID, Groups: r.User.Groups, Extra: r.User.Extra,
			Resource: r.GVR, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
		}
	}
	return in, nil
}

// namespaceObject is the Namespace of the object; null for a Namespace and for cluster-scoped objects. Where Namespaces
// cannot be read, it has the name and the labels that are known.
func namespaceObject(s *policy.Scope) (any, error) {
	r := s.Request
	if r.Namespace == "" || r.GVK.Kind == "Namespace" && r.GVK.Group == "" {
		return nil, nil
	}
	ctx := s.Env.Meter.Context()
	if reader, ok := s.Env.World.Namespaces.(world.NamespaceObjects); ok {
		o, err := reader.Namespace(ctx, r.Namespace)
		if err != nil {
			return nil, err
		}
		return exposed(o), nil
	}
	labels, err := namespaceLabels(ctx, s)
	if err != nil {
		return nil, err
	}
	metadata := map[string]any{"name": r.Namespace}
	if len(labels) > 0 {
		set := make(map[string]any, len(labels))
		for k, v := range labels {
			set[k] = v
		}
		metadata["labels"] = set
	}
	return map[string]any{"metadata": metadata}, nil
}

func namespaceLabels(ctx context.Context, s *policy.Scope) (map[string]string, error) {
	if s.Request.ResolveNamespace != nil {
		return s.Request.NamespaceLabels(ctx)
	}
	if n := s.Env.World.Namespaces; n != nil {
		return n.Labels(ctx, s.Request.Namespace)
	}
	return nil, world.ErrUnavailable
}

// exposed leaves out of a Namespace what the API server does not show to expressions.
func exposed(ns map[string]any) map[string]any {
	out := map[string]any{}
	for _, k := range []string{"metadata", "spec", "status"} {
		if v, ok := ns[k]; ok {
			out[k] = v
		}
	}
	if metadata, ok := out["metadata"].(map[string]any); ok {
		kept := make(map[string]any, len(metadata))
		for k, v := range metadata {
			if k != "managedFields" && k != "ownerReferences" {
				kept[k] = v
			}
		}
		out["metadata"] = kept
	}
	return out
}
