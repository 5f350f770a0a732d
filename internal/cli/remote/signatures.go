package remote

import (
	"net/http"

	"github.com/ephor-dev/ephor/internal/apicall"
	"github.com/ephor-dev/ephor/internal/registry"
	"github.com/ephor-dev/ephor/internal/sigverify"
	"github.com/ephor-dev/ephor/internal/world"
)

// Signatures verifies images whether registries are asked about images or not, as Kyverno does: a policy that demands signatures decides nothing without them. It
// logs in with the docker configuration of this machine.
func Signatures() (world.Signatures, error) {
	images, err := registry.New(registry.Options{Providers: providers, Namespace: secretsNamespace})
	if err != nil {
		return nil, err
	}
	return verifier(images)
}

// signatures verifies images for policies in a cluster.
func (c *Cluster) signatures(_ *registry.Client, services *apicall.Services) (world.Signatures, error) {
	images, err := registry.New(c.registries(services))
	if err != nil {
		return nil, err
	}
	return verifier(images)
}

func verifier(images *registry.Client) (world.Signatures, error) {
	return sigverify.New(sigverify.Options{Registry: images, Keys: sigverify.Given{}, Trust: sigverify.Given{}, HTTP: http.DefaultTransport})
}
