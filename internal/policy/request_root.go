package policy

import "context"

// requestRoot is the variable `request` for those who read some of it: what everybody asks for needs no document, and an
// old object that nobody asks for is not decoded.
type requestRoot struct {
	request *Request
	ctx     context.Context
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
		v, err = q.object()
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
