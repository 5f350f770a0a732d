package scope

import (
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// requestRoot is the variable `request` for partial reads: the common fields need no document, and an unused old object is not decoded. It is
// the call with the request.
type requestRoot policy.Call

// requestVariable returns the value of the variable `request` in the call.
func requestVariable(c *policy.Call) (any, error) {
	if c.Rule == nil || !c.Rule.Needs.Roles {
		return (*requestRoot)(c), nil
	}
	return c.Request.Document(c.Context(), true)
}

// WithObject returns a child scope with another request.object.
func (s *Scope) WithObject(object any) (*Scope, error) {
	call := *s.Call
	call.Request = s.Request.WithObject(value.Of(object))
	v, err := requestVariable(&call)
	if err != nil {
		return nil, err
	}
	return s.With("request", v), nil
}

// Field implements jmespath.Root.
func (r *requestRoot) Field(name string) (v any, ok bool, err error) {
	q := r.Request
	switch name {
	case "operation":
		return string(q.Operation), true, nil
	case "namespace":
		return q.Namespace, true, nil
	case "object":
		v, err = q.ObjectOrOld()
		return v, err == nil, err
	case "oldObject":
		v, err = q.OldObject.Value()
		return v, err == nil, err
	}
	document, err := r.document()
	if err != nil {
		return nil, false, err
	}
	v, ok = document[name]
	return v, ok, nil
}

// Value implements jmespath.Root.
func (r *requestRoot) Value() (any, error) {
	document, err := r.document()
	if err != nil {
		return nil, err
	}
	return document, nil
}

func (r *requestRoot) document() (map[string]any, error) {
	return r.Request.Document((*policy.Call)(r).Context(), false)
}

// whole returns v, or the whole document if v reads fields of a document on demand.
func whole(v any) (any, error) {
	if root, ok := v.(jmespath.Root); ok {
		return root.Value()
	}
	return v, nil
}
