package app

import (
	"context"
	"net/http"
	"time"

	"github.com/ephor-dev/ephor/internal/apicall"
	"github.com/ephor-dev/ephor/internal/registry"
	"github.com/ephor-dev/ephor/internal/sigverify"
	sigkeys "github.com/ephor-dev/ephor/internal/sigverify/keys"
	"github.com/ephor-dev/ephor/internal/sigverify/notary"
	"github.com/ephor-dev/ephor/internal/world"
)

// signatures make the verifier of images. Connections are made as those of calls to services: what is on the blocklist is not asked. secret reads
// the Secrets that hold keys.
func (l lookups) signatures(images *registry.Client, services *apicall.Services, secret func(context.Context, string, string) (map[string][]byte, error)) (world.Signatures, error) {
	asks := egress(services)
	envelopes, err := notary.New(notary.Options{HTTP: asks, Permit: services.Permit, SkipRevocation: !l.registry.revocation})
	if err != nil {
		return nil, err
	}
	verifier, err := sigverify.New(sigverify.Options{
		Registry: images, Keys: sigkeys.New(sigkeys.Options{Secret: secret, Namespace: l.namespace, HTTP: asks, Permit: services.Permit}),
		Trust: sigverify.Given{}, Notary: envelopes, HTTP: asks, Permit: services.Permit,
	})
	if err != nil {
		return nil, err
	}
	return l.registry.remembering(verifier, l.metrics), nil
}

// egress asks what is neither a registry nor the API server.
func egress(services *apicall.Services) http.RoundTripper {
	return &http.Transport{
		DialContext: services.Dial, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 10 * time.Second, IdleConnTimeout: 30 * time.Second,
		MaxIdleConnsPerHost: 2, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}
}
