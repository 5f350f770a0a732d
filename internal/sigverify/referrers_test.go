package sigverify_test

import (
	"crypto/elliptic"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/sigverify"
	"ephor.invalid/ephor/internal/world"
)

const predicateSigned = "https://sigstore.dev/cosign/sign/v1"

// An image of another repository, of which the registry knows nothing, says nothing about the registry's referrers API.
func TestReferrersOfUnknownRepository(t *testing.T) {
	key := newKey(elliptic.P256())
	bundles := func(r *world.SignatureRequest) { r.Format = sigverify.Bundle }
	for _, unknown := range []string{"/tenant/app@", "/team/app@"} {
		p := newPlace(t)
		p.refer(kindBundle, bundleNotes(predicateSigned), keyBundle(key, statement(p.digest, predicateSigned, nil, nil)))
		err := p.verify(byKey(key), bundles, func(r *world.SignatureRequest) {
			r.Image = p.repository.RegistryStr() + unknown + "sha256:" + strings.Repeat("ab", 32)
		})
		wants(t, err, "no matching signatures found")
		wants(t, p.verify(byKey(key), bundles), "")
	}
}
