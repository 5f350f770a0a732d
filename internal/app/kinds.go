package app

import (
	"context"
	"time"

	"ephor.invalid/ephor/internal/app/telemetry"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/control/globals"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/intake"
)

// lookedUp returns the kinds on which policies depend: GlobalContextEntries, and exceptions if they are enabled.
func lookedUp(g *globals.Globals, f exceptionFlags, c *catalog.Catalog, o *telemetry.Telemetry) []intake.Watch {
	all := o.TakenAll(telemetry.GlobalsName, g.Watches())
	return append(all, excepted(f, &intake.Exceptions{Catalog: c}, o)...)
}

// excepted returns the kinds of exceptions, if they are enabled.
func excepted(f exceptionFlags, follow *intake.Exceptions, o *telemetry.Telemetry) []intake.Watch {
	if !f.on() {
		return nil
	}
	follow.Accepts, follow.Log, follow.Now = f.accepts, o.Log, time.Now
	return o.TakenAll(telemetry.ExceptionsName, follow.Watches())
}

// missingKinds returns the row that checks for kinds that are not defined. wake are the sources of changes of the served kinds.
func missingKinds(k *intake.Kinds, wake ...controller.Source) controller.Row {
	return controller.Row{Name: "optional-kinds", Sources: wake, Reconcile: func(ctx context.Context, _ string) (time.Duration, error) { return k.Again(ctx) }}
}
