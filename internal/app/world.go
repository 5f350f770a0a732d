package app

import (
	"context"
	"log/slog"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"ephor.invalid/ephor/internal/apicall"
	"ephor.invalid/ephor/internal/control/globals"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/observe"
	"ephor.invalid/ephor/internal/registry"
	"ephor.invalid/ephor/internal/world"
	"ephor.invalid/ephor/internal/world/live"
)

// lookups configure the lookups of a process's policies.
type lookups struct {
	namespace string // the namespace of the installation
	calls     *callFlags
	registry  *registryFlags // nil for no registries
	globals   globalFlags
	metrics   *observe.Metrics
	seals     world.Seals   // for records of verified images; nil for none
	rights    client.Writer // writes access reviews; nil if rights are not checked
	cluster   *cluster
	events    event.Recorder
	log       *slog.Logger
}

// imageSeals returns the seals for records of verified images.
func imageSeals(m manager.Manager, namespace string) world.Seals {
	store := &keystore.Store{Client: m.GetClient(), Reader: m.GetAPIReader(), Namespace: namespace, Name: keystore.Images}
	return keystore.Seals{Keys: &keystore.Cached{Load: store.Load, Now: time.Now}}
}

// decisionDigests returns the function that computes the digests in records of decisions.
func decisionDigests(m manager.Manager, namespace string) decision.Digests {
	store := &keystore.Store{Client: m.GetClient(), Reader: m.GetAPIReader(), Namespace: namespace, Name: keystore.Decisions}
	return keystore.NewDigests(&keystore.Cached{Load: store.Load, Now: time.Now})
}

// open returns the World of a process. Global context is refreshed until ctx is done.
func (l lookups) open(ctx context.Context, b *base, m manager.Manager) (world.Root, *globals.Globals, error) {
	var entries *globals.Globals
	o := live.Options{
		Config: b.policyConfig, Reader: m.GetAPIReader(), Creator: l.rights, Labels: l.cluster.NamespaceLabels, Kinds: discovery.Kinds{Resources: l.cluster}.World(),
		Calls: l.calls.limits(), Services: l.calls.services(), NamespacedHTTP: l.calls.namespaced,
		Seals: l.seals,
		Globals: func(r *live.Root) (err error) {
			if entries, err = globals.New(ctx, b.policyConfig, globals.Limits{MaxEntries: l.globals.maxEntries, MaxBytes: l.globals.maxBytes}, r.API, r.Services, l.events, l.log); err != nil {
				return err
			}
			r.Globals, r.GlobalOfSecrets = entries.Store.Global, entries.Store.OfSecrets
			return nil
		},
	}
	if l.registry != nil {
		if apicall.ProxyIgnored(l.registry.proxy) {
			l.log.Warn("the environment sets a proxy, which is not used", "for", "registries, transparency logs, trust roots", "use", "--registryProxy=environment")
		}
		o.Registries = func(services *apicall.Services) registry.Options {
			asked := l.registry.options(l.namespace, m.GetAPIReader(), services)
			asked.Observe = b.observing.Metrics.RegistryAnswer
			return asked
		}
		l.metrics = b.observing.Metrics
		o.Signatures = func(images *registry.Client, services *apicall.Services) (world.Signatures, error) {
			return l.signatures(ctx, b, images, services, l.registry.options(l.namespace, m.GetAPIReader(), services).Secret)
		}
	}
	root, err := live.Open(o)
	if err != nil {
		return nil, nil, err
	}
	return b.observing.Tracer.World(root), entries, nil
}
