package evalenv

import (
	"github.com/ephor-dev/ephor/internal/budget"
	"github.com/ephor-dev/ephor/internal/imageref"
	"github.com/ephor-dev/ephor/internal/trace"
	"github.com/ephor-dev/ephor/internal/world"
)

// Env is what an evaluation may use besides its input. A nil *Env has no limits and no world.
type Env struct {
	Meter *budget.Meter
	World world.World
	// Images says what an image reference without a registry means.
	Images imageref.Defaults
	// Trace takes notes of what is evaluated; nil, as it is but for `ephor explain`, takes none.
	Trace *trace.Log
}
