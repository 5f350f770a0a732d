package jmespath

import (
	"github.com/ephor-dev/ephor/internal/budget"
	"github.com/ephor-dev/ephor/internal/imageref"
	"github.com/ephor-dev/ephor/internal/trace"
	"github.com/ephor-dev/ephor/internal/world"
)

// Root is an input document whose top-level fields are looked up by name, so that they can be loaded lazily.
type Root interface {
	// Field returns the value of a top-level name; ok is false when there is none; err says why it could not be loaded.
	Field(name string) (v any, ok bool, err error)
	// Value returns the whole document.
	Value() (any, error)
}

// Env is what an evaluation may use besides its input. A nil *Env has no limits and no world.
type Env struct {
	Meter *budget.Meter
	World world.World
	// Images says what an image reference without a registry means.
	Images imageref.Defaults
	// Trace takes notes of what is evaluated; nil, as it is but for `ephor explain`, takes none.
	Trace *trace.Log
}
