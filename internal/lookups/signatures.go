package lookups

import (
	"context"
	"time"

	"ephor.invalid/ephor/internal/apicall"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/registry"
	"ephor.invalid/ephor/internal/sigverify"
	sigkeys "ephor.invalid/ephor/internal/sigverify/keys"
	"ephor.invalid/ephor/internal/sigverify/notary"
	"ephor.invalid/ephor/internal/world"
)

// signatures returns the verifier of images. Its connections have the same restrictions as calls to services, such as the blocklist.
// secret reads Secrets with keys. The row renews the trust roots.
func (o Options) signatures(images *registry.Client, services *apicall.Services, secret func(context.Context, string, string) (map[string][]byte, error)) (s world.Signatures, renew controller.Row, err error) {
	asks := o.Registry.transport(services)
	envelopes, err := notary.New(notary.Options{HTTP: asks, Permit: services.Permit, SkipRevocation: !o.Registry.revocation})
	if err != nil {
		return nil, renew, err
	}
	keeper, err := o.Registry.keeper(services, o.Telemetry.Log)
	if err != nil {
		return nil, renew, err
	}
	o.Telemetry.Metrics.TrustRoots(func(report func(string, bool, time.Time, int)) {
		for _, s := range keeper.Statuses() {
			report(s.Source, s.Confined, s.Fetched, s.Failures)
		}
	})
	verifier, err := sigverify.New(sigverify.Options{
		Registry: images, Keys: sigkeys.New(sigkeys.Options{Secret: secret, Namespace: o.Namespace, HTTP: asks, Permit: services.Permit, ConfinedLogin: o.Registry.confinedLogin}),
		Trust: keeper, Notary: envelopes, HTTP: asks, Permit: services.Permit,
	})
	if err != nil {
		return nil, renew, err
	}
	renew = controller.Row{Name: "trust-roots", Sources: []controller.Source{controller.Func(func(ctx context.Context, _ func(string)) error { return keeper.Run(ctx) })}}
	return o.Registry.remembering(verifier, o.Telemetry.Metrics), renew, nil
}
