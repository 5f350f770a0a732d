package jmespath

import "ephor.invalid/ephor/internal/evalenv"

// Root is an input document whose top-level fields are looked up by name, so that they can be loaded lazily.
type Root interface {
	// Field returns the value of a top-level name; ok is false if there is none; err is the reason why it could not be
	// loaded.
	Field(name string) (v any, ok bool, err error)
	// Value returns the whole document.
	Value() (any, error)
}

// Env holds what a query may use in addition to its input. It converts to an evalenv.Env. A nil *Env has no limits and no
// world.
type Env evalenv.Env
