package policy

import "ephor.invalid/ephor/internal/wildcard"

// IsNamespace reports whether the request is for a Namespace or a subresource of one. Its name acts as a namespace, and the API server even
// sends it as request.namespace.
func (r *Request) IsNamespace() bool {
	return r.GVK.Kind == "Namespace" && r.GVK.Group == ""
}

// EffectiveOperation returns the request's operation. Without one, as in a scan, it returns CREATE.
func (r *Request) EffectiveOperation() Operation {
	if r.Operation == "" {
		return Create
	}
	return r.Operation
}

// ObjectNamespace returns the namespace of the object. It is empty for cluster-scoped objects, including Namespaces.
func (r *Request) ObjectNamespace() string {
	if r.IsNamespace() {
		return ""
	}
	return r.Namespace
}

// ObjectName returns the object's name, or its generateName if it has no name yet. The name in the request takes
// precedence, because the object of a subresource (PodExecOptions) may have no metadata at all.
func (r *Request) ObjectName() (string, error) {
	name, _, err := r.nameOf()
	return name, err
}

// nameOf does the same as ObjectName. generated reports whether the object has no name yet.
func (r *Request) nameOf() (name string, generated bool, err error) {
	if r.Name != "" {
		return r.Name, false, nil
	}
	meta, err := r.metadata()
	if err != nil {
		return "", true, err
	}
	if name, _ := meta["name"].(string); name != "" {
		return name, false, nil
	}
	name, _ = meta["generateName"].(string)
	return name, true, nil
}

// metadata returns the object's metadata, or nil if it has none.
func (r *Request) metadata() (map[string]any, error) {
	object, err := r.Subject()
	if err != nil {
		return nil, err
	}
	return metadataOf(object), nil
}

func metadataOf(object map[string]any) map[string]any {
	meta, _ := object["metadata"].(map[string]any)
	return meta
}

// Labels returns the labels of the object that match blocks evaluate (Subject), or nil if it has none.
func (r *Request) Labels() (wildcard.Values, error) {
	meta, err := r.metadata()
	if err != nil {
		return nil, err
	}
	return textMap(meta["labels"]), nil
}

// OldLabels returns the labels of the old object, or nil if there are none.
func (r *Request) OldLabels() (wildcard.Values, error) {
	object, err := r.OldObject.Map()
	if err != nil {
		return nil, err
	}
	return textMap(metadataOf(object)["labels"]), nil
}

// Annotations returns the annotations of the object that match blocks evaluate, or nil if it has none.
func (r *Request) Annotations() (wildcard.Values, error) {
	meta, err := r.metadata()
	if err != nil {
		return nil, err
	}
	return textMap(meta["annotations"]), nil
}

// oddLabels reports whether Labels omits the labels because one is not a string.
func (r *Request) oddLabels() bool {
	meta, err := r.metadata()
	if err != nil {
		return false
	}
	in, _ := meta["labels"].(map[string]any)
	return len(in) > 0 && textMap(in) == nil
}

// textMap reads a map of strings. A null value counts as an empty string, as in the API server. Any other value that is not a string makes
// the whole map unreadable, as in Kyverno. Such values occur only in files, since the API server stores strings.
func textMap(v any) wildcard.Values {
	m, _ := v.(map[string]any)
	for _, e := range m {
		if _, ok := e.(string); !ok && e != nil {
			return nil
		}
	}
	return m
}
