package app

import (
	"context"
	"time"

	"ephor.invalid/ephor/internal/apicall"
	"ephor.invalid/ephor/internal/registry"
	"ephor.invalid/ephor/internal/sigverify"
	sigkeys "ephor.invalid/ephor/internal/sigverify/keys"
	"ephor.invalid/ephor/internal/sigverify/notary"
	"ephor.invalid/ephor/internal/world"
)

// signatures returns the verifier of images. Its connections have the same restrictions as calls to services, such as the blocklist.
// secret reads Secrets with keys. Trust roots are renewed until ctx is done.
func (l lookups) signatures(ctx context.Context, b *base, images *registry.Client, services *apicall.Services, secret func(context.Context, string, string) (map[string][]byte, error)) (world.Signatures, error) {
	asks := l.registry.transport(services)
	envelopes, err := notary.New(notary.Options{HTTP: asks, Permit: services.Permit, SkipRevocation: !l.registry.revocation})
	if err != nil {
		return nil, err
	}
	keeper, err := l.registry.keeper(ctx, services, l.log)
	if err != nil {
		return nil, err
	}
	b.observing.Metrics.TrustRoots(func(report func(string, bool, time.Time, int)) {
		for _, s := range keeper.Statuses() {
			report(s.Source, s.Confined, s.Fetched, s.Failures)
		}
	})
	verifier, err := sigverify.New(sigverify.Options{
		Registry: images, Keys: sigkeys.New(sigkeys.Options{Secret: secret, Namespace: l.namespace, HTTP: asks, Permit: services.Permit, ConfinedLogin: l.registry.confinedLogin}),
		Trust: keeper, Notary: envelopes, HTTP: asks, Permit: services.Permit,
	})
	if err != nil {
		return nil, err
	}
	return l.registry.remembering(verifier, l.metrics), nil
}
