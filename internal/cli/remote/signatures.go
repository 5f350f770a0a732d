package remote

import (
	"context"
	"fmt"
	"net/http"

	"ephor.invalid/ephor/internal/apicall"
	"ephor.invalid/ephor/internal/registry"
	"ephor.invalid/ephor/internal/sigverify"
	"ephor.invalid/ephor/internal/sigverify/keys"
	"ephor.invalid/ephor/internal/sigverify/notary"
	"ephor.invalid/ephor/internal/sigverify/trust"
	"ephor.invalid/ephor/internal/world"
)

// Signatures returns a verifier for image signatures, which queries registries even if registry queries about images are not enabled. As in
// Kyverno, a policy that requires signatures could not decide without them. It logs in with the docker configuration of this machine.
func Signatures() (world.Signatures, error) { return Verifier(false) }

// Verifier returns the verifier of Signatures, which can also explain its findings. If offline is set, it uses no network except
// registries.
func Verifier(offline bool) (*sigverify.Verifier, error) {
	images, err := registry.New(registry.Options{Providers: providers, Namespace: secretsNamespace})
	if err != nil {
		return nil, err
	}
	return verifier(images, nil, offline)
}

// signatures returns a verifier for policies in a cluster.
func (c *Cluster) signatures(_ *registry.Client, services *apicall.Services) (world.Signatures, error) {
	images, err := registry.New(c.registries(services))
	if err != nil {
		return nil, err
	}
	return verifier(images, c.secret, false)
}

// verifier calls key management services as the user of this machine. secret reads Secrets with keys; it is nil without a cluster.
func verifier(images *registry.Client, secret func(context.Context, string, string) (map[string][]byte, error), offline bool) (*sigverify.Verifier, error) {
	var network http.RoundTripper = http.DefaultTransport
	if offline {
		network = nowhere{}
	}
	envelopes, err := notary.New(notary.Options{HTTP: network, SkipRevocation: offline})
	if err != nil {
		return nil, err
	}
	keeper, err := trust.New(trust.Options{HTTP: network, Offline: offline})
	if err != nil {
		return nil, err
	}
	return sigverify.New(sigverify.Options{
		Registry: images, Keys: keys.New(keys.Options{Secret: secret, Namespace: secretsNamespace, ConfinedLogin: true}), Trust: keeper, Notary: envelopes, HTTP: network,
	})
}

// nowhere is the HTTP transport of a command that works offline. It rejects all requests.
type nowhere struct{}

// RoundTrip implements http.RoundTripper.
func (nowhere) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("%s is not contacted: the command works offline", r.URL.Host)
}
