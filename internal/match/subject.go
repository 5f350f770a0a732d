package match

import (
	"github.com/ephor-dev/ephor/internal/policy"
)

// The facts that matchers read of the object a request is about.

// isNamespace reports whether the request is about a Namespace or a subresource of one. Its name plays the part of a
// namespace, and the API server even sends it as request.namespace.
func isNamespace(r *policy.Request) bool {
	return r.GVK.Kind == "Namespace" && r.GVK.Group == ""
}

// operation is the request's operation; without a request (a scan) an object counts as being created.
func operation(r *policy.Request) policy.Operation {
	if r.Operation == "" {
		return policy.Create
	}
	return r.Operation
}

// objectNamespace is the namespace that the object lives in; empty for cluster-scoped objects, Namespaces among them.
func objectNamespace(r *policy.Request) string {
	if isNamespace(r) {
		return ""
	}
	return r.Namespace
}

// objectName is the object's name, or its generateName while it has none. The request's own name comes first because
// the object of a subresource (PodExecOptions) may have no metadata at all.
func objectName(r *policy.Request) (string, error) {
	if r.Name != "" {
		return r.Name, nil
	}
	meta, err := metadata(r)
	if err != nil {
		return "", err
	}
	if name, _ := meta["name"].(string); name != "" {
		return name, nil
	}
	name, _ := meta["generateName"].(string)
	return name, nil
}

// metadata is the object's metadata, nil when it has none.
func metadata(r *policy.Request) (map[string]any, error) {
	object, err := r.Subject()
	if err != nil {
		return nil, err
	}
	meta, _ := object["metadata"].(map[string]any)
	return meta, nil
}

// objectLabels are the object's labels, nil when it has none.
func objectLabels(r *policy.Request) (map[string]any, error) {
	meta, err := metadata(r)
	if err != nil {
		return nil, err
	}
	return textMap(meta["labels"]), nil
}

// objectAnnotations are the object's annotations, nil when it has none.
func objectAnnotations(r *policy.Request) (map[string]any, error) {
	meta, err := metadata(r)
	if err != nil {
		return nil, err
	}
	return textMap(meta["annotations"]), nil
}

// textMap reads a map of texts. An entry that is null counts as an empty text, as it does for the API server. Any other
// value that is not a text makes the whole map unreadable, as recorded. Only files can hold either: the API server stores
// texts.
func textMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	for _, e := range m {
		if _, ok := e.(string); !ok && e != nil {
			return nil
		}
	}
	return m
}
