package evalenv

import (
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/trace"
	"ephor.invalid/ephor/internal/world"
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
