package app

import (
	"context"
	"time"

	"ephor.invalid/ephor/internal/app/telemetry"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/lifecycle"
)

// lookedUp returns the kinds on which policies depend: GlobalContextEntries, and exceptions if they are enabled.
func lookedUp(g *globals, f exceptionFlags, c *catalog.Catalog, o *telemetry.Telemetry, servers *discovery.Servers) []intake.Watch {
	all := o.TakenAll(telemetry.GlobalsName, g.Watches())
	return append(all, excepted(f, &intake.Exceptions{Catalog: c}, o, servers)...)
}

// excepted returns the kinds of exceptions, if they are enabled.
func excepted(f exceptionFlags, follow *intake.Exceptions, o *telemetry.Telemetry, servers *discovery.Servers) []intake.Watch {
	if !f.on() {
		return nil
	}
	follow.Accepts, follow.Log, follow.Now, follow.Server = f.accepts, o.Log, time.Now, servers.Version
	servers.Changed(func(kubeversion.Minor) { follow.Recompile() })
	return o.TakenAll(telemetry.ExceptionsName, follow.Watches())
}

// missingKinds returns the task that checks for kinds that are not defined. The caller fires wake when one may have been defined.
func missingKinds(k *intake.Kinds, wake lifecycle.Trigger) lifecycle.Task {
	return lifecycle.Task{Name: "optional-kinds", Wake: wake, Once: func(ctx context.Context) (time.Duration, error) { return k.Again(ctx) }}
}
