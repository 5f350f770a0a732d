package sigverify_test

import (
	"bytes"
	"crypto/elliptic"
	"fmt"
	"net/http"
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

// The attestations of one image are not read into memory without a limit.
func TestAttestationsTogether(t *testing.T) {
	key, p := newKey(elliptic.P256()), newPlace(t)
	layers := []layer{p.attested(key, "scan", map[string]any{})}
	for n := range 5 { // each is below the limit for one
		layers = append(layers, layer{append(bytes.Repeat([]byte(" "), 9_900_000), byte(n)), kindEnvelope, nil})
	}
	p.attach(".att", layers...)
	_, err := p.statements(byKey(key), "scan")
	wants(t, err, "!the signatures and attestations of the image have more than 40000000 bytes")
}

// A page of referrers that cannot be read is an error: it may list the signature.
func TestReferrersPages(t *testing.T) {
	key := newKey(elliptic.P256())
	for _, c := range []struct {
		name, link string // the header Link of the first page, which lists nothing; %s is the path of the referrers
		status     int    // of the second page; 0 for the page of the registry itself
		want       string
	}{
		{"a path", `<%s?page=2>; rel="next"`, 0, ""},
		{"an address", `<http://elsewhere.example%s?page=2>; rel=next`, 0, ""},
		{"after others", `<%[1]s>; rel="first", <%[1]s?page=2>; rel="next"`, 0, ""},
		{"not there", `<%s?page=2>; rel="next"`, http.StatusNotFound, "!a further page of referrers cannot be read"},
		{"another repository", `</v2/mirror/app/referrers/x?page=2>; rel="next"`, 0, "!a further page of referrers cannot be read"},
		{"the last page", `<%s>; rel="first"`, 0, "no matching signatures found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			p.refer(kindBundle, bundleNotes(predicateSigned), keyBundle(key, statement(p.digest, predicateSigned, nil, nil)))
			p.answers(func(w http.ResponseWriter, r *http.Request) bool {
				switch {
				case !strings.Contains(r.URL.Path, "/referrers/"):
					return false
				case r.URL.Query().Get("page") != "":
					if c.status != 0 {
						w.WriteHeader(c.status)
					}
					return c.status != 0
				}
				link := c.link
				if strings.Contains(link, "%") {
					link = fmt.Sprintf(link, r.URL.Path)
				}
				w.Header().Set("Link", link)
				fmt.Fprint(w, `{"schemaVersion":2,"manifests":[]}`)
				return true
			})
			wants(t, p.verify(byKey(key), func(r *world.SignatureRequest) { r.Format = sigverify.Bundle }), c.want)
		})
	}
}
