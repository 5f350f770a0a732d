package scope

import (
	"context"

	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// requestRoot is the variable `request` for partial reads: the common fields need no document, and an unused old object is not decoded.
type requestRoot struct {
	request *policy.Request
	ctx     context.Context
}

// requestVariable returns the value of the variable `request` for r, in a scope of the rule.
func requestVariable(ctx context.Context, r *policy.Request, rule *policy.Rule) (any, error) {
	if rule == nil || !rule.Needs.Roles {
		return &requestRoot{r, ctx}, nil
	}
	return r.Document(ctx, true)
}

// WithObject returns a child scope with another request.object.
func (s *Scope) WithObject(object any) (*Scope, error) {
	v, err := requestVariable(s.Context(), s.Request.WithObject(value.Of(object)), s.Rule)
	if err != nil {
		return nil, err
	}
	return s.With("request", v), nil
}

// Field implements jmespath.Root.
func (r *requestRoot) Field(name string) (v any, ok bool, err error) {
	q := r.request
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
	document, err := q.Document(r.ctx, false)
	if err != nil {
		return nil, false, err
	}
	v, ok = document[name]
	return v, ok, nil
}

// Value implements jmespath.Root.
func (r *requestRoot) Value() (any, error) {
	document, err := r.request.Document(r.ctx, false)
	if err != nil {
		return nil, err
	}
	return document, nil
}

// whole returns v, or the whole document if v reads fields of a document on demand.
func whole(v any) (any, error) {
	if root, ok := v.(jmespath.Root); ok {
		return root.Value()
	}
	return v, nil
}
