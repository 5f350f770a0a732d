package celrule

import (
	"github.com/ephor-dev/ephor/internal/celenv"
	"github.com/ephor-dev/ephor/internal/policy"
)

// RequestInput is what expressions see of a request where no world is at hand: object, oldObject and request.
func RequestInput(r *policy.Request) (*celenv.Input, error) { return Options{}.RequestInput(r) }

// RequestInput is RequestInput for a language with these Options.
func (o Options) RequestInput(r *policy.Request) (*celenv.Input, error) {
	object, err := r.Object.Value()
	if err != nil {
		return nil, err
	}
	old, err := r.OldObject.Value()
	if err != nil {
		return nil, err
	}
	in := &celenv.Input{Object: object, OldObject: old, Request: func() (any, error) { return o.requestOf(r), nil }}
	if o.EmptyObjects {
		if in.Request = func() (any, error) { return o.requestWith(r, object, old), nil }; object == nil {
			in.Object = map[string]any{}
		}
		if old == nil {
			in.OldObject = map[string]any{}
		}
	}
	return in, nil
}

// Input is RequestInput with what the world of the call knows: the namespace, and the requester's rights. Parameters are
// for the caller to add.
func Input(c *policy.Call) (*celenv.Input, error) { return Options{}.Input(c) }

// Input is Input for a language with these Options.
func (o Options) Input(c *policy.Call) (*celenv.Input, error) {
	in, err := o.RequestInput(c.Request)
	if err != nil {
		return nil, err
	}
	in.Trace = c.Trace
	in.Namespace = func() (any, error) { return o.namespaceOf(c) }
	in.Authorizer = authorizerOf(c)
	in.World = c.World
	if c.Program != nil {
		in.Namespaced = c.Program.Namespace
	}
	return in, nil
}

// authorizerOf answers for the rights of the requester; nil where they are not known.
func authorizerOf(c *policy.Call) *celenv.Authorizer {
	r, access := c.Request, c.World.Access
	if access == nil || r.User == nil {
		return nil
	}
	return &celenv.Authorizer{
		Access: access, Username: r.User.Username, UID: r.User.UID, Groups: r.User.Groups, Extra: r.User.Extra,
		Resource: r.GVR, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
	}
}
