package celrule

import (
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/policy"
)

// RequestInput returns the input of expressions without a world: object, oldObject and request.
func RequestInput(r *policy.Request) (*run.Input, error) { return Options{}.RequestInput(r) }

// RequestInput is RequestInput for a language with these Options.
func (o Options) RequestInput(r *policy.Request) (*run.Input, error) { return o.input(r, nil) }

// input returns the input of expressions. c is nil without a world.
func (o Options) input(r *policy.Request, c *policy.Call) (*run.Input, error) {
	object, err := r.Object.Value()
	if err != nil {
		return nil, err
	}
	old, err := r.OldObject.Value()
	if err != nil {
		return nil, err
	}
	made := inputOf(c)
	made.source = source{options: o, request: r, call: c, object: object, old: old}
	in := &made.Input
	in.Object, in.OldObject, in.Source = object, old, &made.source
	if o.EmptyObjects {
		if object == nil {
			in.Object = noObject
		}
		if old == nil {
			in.OldObject = noObject
		}
	}
	return in, nil
}

// input is an Input with its source: one allocation.
type input struct {
	run.Input
	source
}

// shared is what the rules of one evaluation share (policy.Call.Shared).
type shared struct {
	run.Memo
	last, idle *input
}

// inputOf returns an empty input for a rule, which shares memory with the rules before it.
func inputOf(c *policy.Call) *input {
	if c == nil {
		return &input{}
	}
	s, ok := c.Shared.(*shared)
	if !ok {
		s = &shared{}
		c.Shared = s
	}
	made := s.idle
	if s.idle = nil; made == nil {
		made = &input{}
	}
	made.Input = run.Input{Memo: &s.Memo}
	s.last = made
	return made
}

// Release lets the next rule of the evaluation use the memory of an Input that Input returned last. The caller may not use it after that,
// or a value that was made of it.
func Release(c *policy.Call, in *run.Input) {
	if s, ok := c.Shared.(*shared); ok && s.last != nil && in == &s.last.Input {
		s.idle, s.last = s.last, nil
	}
}

// noObject stands for an object that the request does not have. Expressions do not change objects.
var noObject any = map[string]any{}

// source computes the parts of the input that only some expressions read.
type source struct {
	options     Options
	request     *policy.Request
	call        *policy.Call
	object, old any
}

func (s *source) Request() (any, error) {
	if s.options.EmptyObjects {
		return s.options.requestWith(s.request, s.object, s.old), nil
	}
	return s.options.requestOf(s.request), nil
}

func (s *source) Namespace() (any, error) {
	if s.call == nil {
		return nil, nil
	}
	return s.options.namespaceOf(s.call)
}

func (s *source) Authorizer() *env.Authorizer {
	if s.call == nil {
		return nil
	}
	return authorizerOf(s.call)
}

// Input is RequestInput with the data from the world of the call: the namespace, and the requester's rights. The caller adds
// parameters.
func Input(c *policy.Call) (*run.Input, error) { return Options{}.Input(c) }

// Input is Input for a language with these Options.
func (o Options) Input(c *policy.Call) (*run.Input, error) {
	in, err := o.input(c.Request, c)
	if err != nil {
		return nil, err
	}
	in.Trace = c.Trace
	in.World = &c.World
	if c.Program != nil {
		in.Namespace = c.Program.Namespace
	}
	return in, nil
}

// authorizerOf returns an authorizer for the requester; nil if the requester's rights are unknown.
func authorizerOf(c *policy.Call) *env.Authorizer {
	r, access := c.Request, c.World.Access
	if access == nil || r.User == nil {
		return nil
	}
	return &env.Authorizer{
		Access: access, Username: r.User.Username, UID: r.User.UID, Groups: r.User.Groups, Extra: r.User.Extra,
		Resource: r.GVR, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
	}
}
