package env

import (
	"context"
	"errors"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/world"
)

// Scope is what the functions of libraries see of an evaluation besides their arguments.
type Scope struct {
	price.Meter
	*Access
	// Verifier answers queries about images; nil if nothing can be verified.
	Verifier Verifier
	// Namespaced: the policy is namespaced, so that functions use Access.Namespace alone.
	Namespaced bool
	// Literal: the first argument of the current call is a literal, at least up to the host of a URL.
	Literal bool
}

// Access is what functions of libraries may use, for all evaluations of a rule.
type Access struct {
	// World is the World that functions query, restricted to the policy's Reach; nil if they may not query anything.
	World *world.World
	// Namespace is the namespace of the policy; empty for a cluster-wide policy.
	Namespace string
	// Registry describes how to log in to registries.
	Registry world.ImageRequest
	// Generate receives the objects of a call of generator.apply; nil if nothing may be generated.
	Generate func(namespace string, objects []map[string]any) error
}

// namespace returns the only namespace that functions may use; empty for a cluster-wide policy.
func (s *Scope) namespace() string {
	if !s.Namespaced {
		return ""
	}
	return s.Namespace
}

// nowhere is a World without any data.
var nowhere world.World

func (s *Scope) world() *world.World {
	if s.World == nil {
		return &nowhere
	}
	return s.World
}

// unknown ends the evaluation, because a function could not find out the answer to its query to the World.
func (s *Scope) unknown(err error) ref.Val {
	s.Meter.Fail(err)
	return types.WrapErr(err)
}

// native converts decoded JSON to a CEL value.
func (s *Scope) native(v any) ref.Val { return types.DefaultTypeAdapter.NativeToValue(v) }

// answer converts an answer of the World to a CEL value.
func (s *Scope) answer(v any) ref.Val {
	left := price.MaxValues
	if price.Count(v, &left); left < 0 {
		return s.unknown(price.ErrTooLarge)
	}
	s.Charge(price.MaxValues - left)
	return s.native(v)
}

// unanswered returns the value for a query without an answer.
func (s *Scope) unanswered(what string, err error) ref.Val {
	err = &UnansweredError{what, err}
	if s.Context().Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return s.unknown(err)
	}
	return types.WrapErr(err)
}
