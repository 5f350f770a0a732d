package lookups

import (
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"ephor.invalid/ephor/internal/apicall"
	"ephor.invalid/ephor/internal/control/globals"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/registry"
	"ephor.invalid/ephor/internal/telemetry"
	"ephor.invalid/ephor/internal/world"
	"ephor.invalid/ephor/internal/world/live"
)

// Options configure the lookups of a process's policies.
type Options struct {
	Namespace string // the namespace of the installation
	Calls     *CallFlags
	Registry  *RegistryFlags // nil for no registries
	Globals   globals.Flags
	Config    *rest.Config  // the connection to the API server
	Seals     world.Seals   // for records of verified images; nil for none
	Rights    client.Writer // writes access reviews; nil if rights are not checked
	Manager   manager.Manager
	Cluster   *Cluster
	Events    event.Recorder
	Telemetry *telemetry.Telemetry
}

// Open returns the World of a process, and the rows that keep its data current.
func (o Options) Open() (world.Root, *globals.Globals, []controller.Row, error) {
	var entries *globals.Globals
	var rows []controller.Row
	reader := o.Manager.GetAPIReader()
	l := live.Options{
		Config: o.Config, Reader: reader, Creator: o.Rights, Labels: o.Cluster.NamespaceLabels, Kinds: discovery.Kinds{Resources: o.Cluster}.World(),
		Calls: o.Calls.limits(), Services: o.Calls.services(), NamespacedHTTP: o.Calls.Namespaced, Seals: o.Seals,
		Globals: func(r *live.Root) (err error) {
			if entries, err = globals.New(o.Config, o.Globals, r.API, r.Services, o.Events, o.Telemetry.Log); err != nil {
				return err
			}
			rows = append(rows, entries.Data())
			r.Globals, r.GlobalOfSecrets = entries.Store.Global, entries.Store.OfSecrets
			return nil
		},
	}
	if o.Registry != nil {
		if apicall.ProxyIgnored(o.Registry.proxy) {
			o.Telemetry.Log.Warn("the environment sets a proxy, which is not used", "for", "registries, transparency logs, trust roots", "use", "--registryProxy=environment")
		}
		l.Registries = func(services *apicall.Services) registry.Options {
			asked := o.Registry.options(o.Namespace, reader, services)
			asked.Observe = o.Telemetry.Metrics.RegistryAnswer
			return asked
		}
		l.Signatures = func(images *registry.Client, services *apicall.Services) (world.Signatures, error) {
			s, renew, err := o.signatures(images, services, o.Registry.options(o.Namespace, reader, services).Secret)
			rows = append(rows, renew)
			return s, err
		}
	}
	root, err := live.Open(l)
	if err != nil {
		return nil, nil, nil, err
	}
	return o.Telemetry.Tracer.World(root), entries, rows, nil
}
