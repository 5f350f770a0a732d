package live

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/apicall"
	"ephor.invalid/ephor/internal/registry"
	"ephor.invalid/ephor/internal/world"
)

// Options configure the lookups of a process's policies.
type Options struct {
	// Config is for calls by path, Reader for objects, and Creator for the rights of users; nil if not used.
	Config  *rest.Config
	Reader  client.Reader
	Creator client.Writer
	Labels  func(ctx context.Context, namespace string) (map[string]string, error)
	Kinds   world.Kinds

	Calls    apicall.Limits
	Services apicall.ServiceOptions
	// NamespacedHTTP lets namespaced CEL policies call services.
	NamespacedHTTP bool
	// Registries returns the registry options for the client of services; nil for no registries.
	Registries func(*apicall.Services) registry.Options
	// Seals prove the records of verified images; nil if there are no records.
	Seals world.Seals
	// Signatures returns the verifier of images for the clients of registries (nil without registries) and services; nil for no
	// verification.
	Signatures func(*registry.Client, *apicall.Services) (world.Signatures, error)
	// Globals adds the data of GlobalContextEntries to the other parts; nil for none.
	Globals func(*Root) error
}

// Open returns the Root of a process. Only this function assembles its parts.
func Open(o Options) (*Root, error) {
	api, err := apicall.NewKubernetes(o.Config, o.Calls)
	if err != nil {
		return nil, err
	}
	services, err := apicall.NewServices(o.Services)
	if err != nil {
		return nil, err
	}
	r := &Root{Reader: o.Reader, Labels: o.Labels, Kinds: o.Kinds, API: api.Call, Services: services.Call, HTTP: services.Exchange, NamespacedHTTP: o.NamespacedHTTP, Seals: o.Seals}
	if o.Creator != nil {
		r.Access = Access{Creator: o.Creator}
	}
	var images *registry.Client
	if o.Registries != nil {
		if images, err = registry.New(o.Registries(services)); err != nil {
			return nil, fmt.Errorf("registries: %w", err)
		}
		r.Images = images.Lookups()
	}
	if o.Signatures != nil {
		if r.Signatures, err = o.Signatures(images, services); err != nil {
			return nil, fmt.Errorf("signatures: %w", err)
		}
	}
	if o.Globals != nil {
		if err = o.Globals(r); err != nil {
			return nil, err
		}
	}
	return r, nil
}
