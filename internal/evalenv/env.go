package evalenv

import (
	"github.com/ephor-dev/ephor/internal/budget"
	"github.com/ephor-dev/ephor/internal/imageref"
	"github.com/ephor-dev/ephor/internal/trace"
	"github.com/ephor-dev/ephor/internal/world"
)

// Env holds what an evaluation may use beside its input. A nil *Env has no limits and no world.
type Env struct {
	Meter *budget.Meter
	World world.World
	// Images holds the defaults for image references without a registry.
	Images imageref.Defaults
	// Trace records the evaluation. It is nil, which records nothing, except in `ephor explain`.
	Trace *trace.Log
}
