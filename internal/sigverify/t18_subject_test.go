package sigverify_test

import (
	"crypto"
	"crypto/elliptic"
	"encoding/json"
	"net/http"
	"path"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"ephor.invalid/ephor/internal/sigverify"
	"ephor.invalid/ephor/internal/sigverify/notary"
	"ephor.invalid/ephor/internal/world"
)

// listed is an artefact in a list of referrers.
type listed struct {
	v1.Descriptor
	Kind string `json:"artifactType"`
}

// list answers queries for referrers with the artefacts of the digests, whatever these refer to: by the API, or by the tag sha256-⟨hex⟩,
// which a user who may push can write.
func (p *testRegistry) list(byTag bool, of map[v1.Hash]listed) {
	p.answers(func(w http.ResponseWriter, r *http.Request) bool {
		last := path.Base(r.URL.Path)
		switch {
		case strings.Contains(r.URL.Path, "/referrers/") && byTag:
			http.NotFound(w, r)
			return true
		case strings.Contains(r.URL.Path, "/referrers/"), byTag && strings.HasPrefix(last, "sha256-") && len(last) == 71:
		default:
			return false
		}
		index := map[string]any{"schemaVersion": 2, "mediaType": types.OCIImageIndex, "manifests": []listed{}}
		if l, ok := of[v1.Hash{Algorithm: "sha256", Hex: last[len("sha256:"):]}]; ok {
			index["manifests"] = []listed{l}
		}
		w.Header().Set("Content-Type", string(types.OCIImageIndex))
		_ = json.NewEncoder(w).Encode(index)
		return true
	})
}

// An artefact that refers to another image proves nothing about this one, whatever list it is in.
func TestT18ReferrersOfAnotherImage(t *testing.T) {
	const (
		sign      = "https://sigstore.dev/cosign/sign/v1"
		kindLayer = "application/vnd.dev.cosign.artifact.sig.v1+json"
	)
	ours, key := newNotarySigner(t), newKey(elliptic.P256())
	attached := func(kind string, content func(p *testRegistry) layer) func(*testRegistry, v1.Descriptor) map[v1.Hash]listed {
		return func(p *testRegistry, subject v1.Descriptor) map[v1.Hash]listed {
			d := p.attachTo(p.repository, subject, kind, content(p))
			out := map[v1.Hash]listed{p.digest: {d, kind}}
			if kind == kindSBOM { // the statement is signed, whatever it is about
				out[d.Digest] = listed{p.attachTo(p.repository, d, kindNotary, ours.sign(t, kindJWS, d)), kindNotary}
			}
			return out
		}
	}
	sbom := func(*testRegistry) layer { return layer{blob: []byte(`{"name":"good"}`), kind: "application/json"} }
	signedBundle := func(p *testRegistry) layer { return keyBundle(key, statement(p.digest, sign, nil, nil)) }
	ofBundle := func(r *world.SignatureRequest) { r.Format = sigverify.Bundle }
	only := func(_ []world.Statement, err error) error { return err }
	for label, c := range map[string]struct {
		attach func(*testRegistry, v1.Descriptor) map[v1.Hash]listed // writes an artefact that refers to the descriptor
		verify func(p *testRegistry) error
	}{
		"Notary, statement":           {attached(kindSBOM, sbom), func(p *testRegistry) error { return only(p.statements(ours.attestor(), kindSBOM, byNotary)) }},
		"Notary, statement, unsigned": {attached(kindSBOM, sbom), func(p *testRegistry) error { return only(p.statements(nil, kindSBOM, byNotary)) }},
		"Notary, signature": {attached(kindNotary, func(p *testRegistry) layer { return ours.sign(t, kindCOSE, p.described()) }),
			func(p *testRegistry) error { return p.verify(ours.attestor(), byNotary) }},
		"bundle": {attached(kindBundle, signedBundle), func(p *testRegistry) error { return p.verify(byKey(key), ofBundle) }},
		"Cosign": {attached(kindBundle, signedBundle), func(p *testRegistry) error { return p.verify(byKey(key)) }},
		"Cosign, layer": {attached(kindLayer, func(p *testRegistry) layer { return signed(key, crypto.SHA256, p.claim(nil)) }),
			func(p *testRegistry) error { return p.verify(byKey(key)) }},
		"Cosign, statement": {attached(kindBundle, func(p *testRegistry) layer { return keyBundle(key, statement(p.digest, "scan", map[string]any{}, nil)) }),
			func(p *testRegistry) error { return only(p.statements(byKey(key), "scan")) }},
	} {
		for _, byTag := range []bool{false, true} {
			t.Run(label, func(t *testing.T) {
				for _, good := range []bool{true, false} {
					p := newPlace(t)
					subject, want := p.described(), ""
					if !good {
						subject.Digest.Hex, want = strings.Repeat("ab", 32), "refers to sha256:"+strings.Repeat("ab", 32)
					}
					of := c.attach(p, subject)
					p.withNotary(notary.Options{})
					p.list(byTag, of)
					err := c.verify(p)
					if wants(t, err, want); err != nil && !strings.Contains(err.Error(), of[p.digest].Digest.String()) {
						t.Errorf("the artefact that was skipped is not named: %v", err)
					}
				}
			})
		}
	}
}
