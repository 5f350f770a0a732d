package remote

import (
	"context"
	"net/http"

	"github.com/ephor-dev/ephor/internal/apicall"
	"github.com/ephor-dev/ephor/internal/registry"
	"github.com/ephor-dev/ephor/internal/sigverify"
	"github.com/ephor-dev/ephor/internal/sigverify/keys"
	"github.com/ephor-dev/ephor/internal/sigverify/notary"
	"github.com/ephor-dev/ephor/internal/sigverify/trust"
	"github.com/ephor-dev/ephor/internal/world"
)

// Signatures verifies images whether registries are asked about images or not, as Kyverno does: a policy that demands signatures decides nothing without them. It
// logs in with the docker configuration of this machine.
func Signatures() (world.Signatures, error) { return Verifier() }

// Verifier is that of Signatures, which also explains what it finds.
func Verifier() (*sigverify.Verifier, error) {
	images, err := registry.New(registry.Options{Providers: providers, Namespace: secretsNamespace})
	if err != nil {
		return nil, err
	}
	return verifier(images, nil)
}

// signatures verifies images for policies in a cluster.
func (c *Cluster) signatures(_ *registry.Client, services *apicall.Services) (world.Signatures, error) {
	images, err := registry.New(c.registries(services))
	if err != nil {
		return nil, err
	}
	return verifier(images, c.secret)
}

// verifier asks key services as the user of this machine. secret reads Secrets with keys; nil where there is no cluster.
func verifier(images *registry.Client, secret func(context.Context, string, string) (map[string][]byte, error)) (*sigverify.Verifier, error) {
	envelopes, err := notary.New(notary.Options{})
	if err != nil {
		return nil, err
	}
	keeper, err := trust.New(trust.Options{HTTP: http.DefaultTransport})
	if err != nil {
		return nil, err
	}
	return sigverify.New(sigverify.Options{
		Registry: images, Keys: keys.New(keys.Options{Secret: secret, Namespace: secretsNamespace}), Trust: keeper, Notary: envelopes, HTTP: http.DefaultTransport,
	})
}
