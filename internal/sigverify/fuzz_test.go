package sigverify_test

import (
	"crypto"
	"crypto/elliptic"
	"net/http"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"ephor.invalid/ephor/internal/sigverify"
	"ephor.invalid/ephor/internal/world"
)

// FuzzBundle verifies untrusted bundles: none may crash the process, and no changed bundle is accepted.
func FuzzBundle(f *testing.F) {
	s, key := newServices(f), newKey(elliptic.P256())
	p := newPlace(f)
	p.trust = s
	digest := v1.Hash{Algorithm: "sha256", Hex: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}
	of := sigverify.File{Digest: digest, Content: func() ([]byte, error) { return []byte{}, nil }}
	f.Add(keyBundle(key, statement(digest, "x", nil, nil)).blob)
	f.Add(s.bundleBy(s.person(), statement(digest, "x", nil, nil), time.Now()).blob)
	f.Add(s.bundleBy(s.person(), statement(digest, "x", nil, nil), time.Time{}, s.stamped).blob)
	stranger := newKey(elliptic.P256())
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, a := range []*world.Attestor{byKey(stranger), byName("https://stranger.example", "*")} {
			if found, err := p.verifier.ExamineBundle(t.Context(), text, of, "", a); err == nil && found.Accepted {
				t.Error("a stranger signed it")
			}
		}
	})
}

// FuzzLayer verifies layers with untrusted annotations.
func FuzzLayer(f *testing.F) {
	s, key := newServices(f), newKey(elliptic.P256())
	p := newPlace(f)
	p.trust = s
	good := s.signedBy(s.person(), p.claim(nil), time.Now()).annotations
	f.Add(good["dev.cosignproject.cosign/signature"], good["dev.sigstore.cosign/certificate"], good["dev.sigstore.cosign/chain"], good["dev.sigstore.cosign/bundle"], "{}")
	f.Add("", "-----BEGIN CERTIFICATE-----", "x", `{"Payload":{"body":"e30="}}`, `{"SignedRFC3161Timestamp":"AAAA"}`)
	f.Fuzz(func(t *testing.T, sig, cert, chain, entry, stamp string) {
		l := signed(key, crypto.SHA256, p.claim(nil))
		l.annotations = map[string]string{
			"dev.cosignproject.cosign/signature": sig, "dev.sigstore.cosign/certificate": cert, "dev.sigstore.cosign/chain": chain,
			"dev.sigstore.cosign/bundle": entry, "dev.sigstore.cosign/rfc3161timestamp": stamp,
		}
		p.t = t
		p.attach(".sig", l)
		p.renew(func(o *sigverify.Options) { o.HTTP = nowhere{} })
		if err := p.verify(byName("https://stranger.example", "*")); err == nil {
			t.Error("a stranger signed it")
		}
	})
}

// nowhere is a network without logs.
type nowhere struct{}

func (nowhere) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNoTrust }
