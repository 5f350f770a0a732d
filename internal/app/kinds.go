package app

import (
	"context"
	"time"

	"github.com/ephor-dev/ephor/internal/app/telemetry"
	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/intake"
	"github.com/ephor-dev/ephor/internal/lifecycle"
)

// lookedUp returns the kinds that policies depend on: GlobalContextEntries, and exceptions where they count.
func lookedUp(g *globals, f exceptionFlags, c *catalog.Catalog, o *telemetry.Telemetry) []intake.Watch {
	all := o.TakenAll(telemetry.GlobalsName, g.Watches())
	if f.on() {
		follow := &intake.Exceptions{Accepts: f.accepts, Catalog: c, Log: o.Log, Now: time.Now}
		all = append(all, o.TakenAll(telemetry.ExceptionsName, follow.Watches())...)
	}
	return all
}

// missingKinds is the task that looks for kinds that are not defined. Fire wake when one may have been defined.
func missingKinds(k *intake.Kinds, wake lifecycle.Trigger) lifecycle.Task {
	return lifecycle.Task{Name: "optional-kinds", Wake: wake, Once: func(ctx context.Context) (time.Duration, error) { return k.Again(ctx) }}
}
