package app

import (
	"context"
	"ephor.invalid/ephor/internal/control/status"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/control/globals"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/telemetry"
)

// lookedUp returns the kinds on which policies depend: GlobalContextEntries, and exceptions if they are enabled.
func lookedUp(g *globals.Globals, f exceptionFlags, follow *intake.Exceptions, o *telemetry.Telemetry, servers *discovery.Servers) []intake.Watch {
	all := o.TakenAll(telemetry.GlobalsName, g.Watches())
	return append(all, excepted(f, follow, o, servers)...)
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

// exceptionsFor returns what follows the exceptions of a process.
func exceptionsFor(f exceptionFlags, c *catalog.Catalog, s *settings.Store, m manager.Manager, namespace string) *intake.Exceptions {
	out := &intake.Exceptions{Catalog: c, WarnDays: func() int { return s.Load().Exceptions.WarnDays }}
	if f.approval {
		out.Approved = status.Approved(approvalSeals(m, namespace))
	}
	return out
}

// approvalSeals returns the seals of approvals.
func approvalSeals(m manager.Manager, namespace string) keystore.Seals {
	store := &keystore.Store{Client: m.GetClient(), Reader: m.GetAPIReader(), Namespace: namespace, Name: keystore.Exceptions}
	return keystore.Seals{Keys: &keystore.Cached{Load: store.Load, Now: time.Now}}
}

// missingKinds returns the row that checks for kinds that are not defined. wake are the sources of changes of the served kinds.
func missingKinds(k *intake.Kinds, wake ...controller.Source) controller.Row {
	return controller.Row{Name: "optional-kinds", Sources: wake, Reconcile: func(ctx context.Context, _ string) (time.Duration, error) { return k.Again(ctx) }}
}
