package sigverify_test

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"ephor.invalid/ephor/internal/sigverify"
	"ephor.invalid/ephor/internal/world"
)

func TestKeys(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p256 := newKey(elliptic.P256())
	for _, c := range []struct {
		name      string
		key       crypto.Signer
		hash      crypto.Hash
		algorithm string
		want      string
	}{
		{"P-256", p256, crypto.SHA256, "", ""},
		{"P-256, sha256", p256, crypto.SHA256, "sha256", ""},
		{"P-256, sha224", p256, crypto.SHA224, "sha224", ""},
		{"P-384, sha384", newKey(elliptic.P384()), crypto.SHA384, "sha384", ""},
		{"P-521, sha512", newKey(elliptic.P521()), crypto.SHA512, "sha512", ""},
		{"RSA 2048", newRSA(2048), crypto.SHA256, "", ""},
		{"RSA 4096, sha512", newRSA(4096), crypto.SHA512, "sha512", ""},
		{"Ed25519", ed, 0, "", ""},
		{"Ed25519 ignores the algorithm", ed, 0, "sha512", ""},
		{"another algorithm", p256, crypto.SHA256, "sha512", "no matching signatures: invalid signature when validating ASN.1 encoded signature"},
		{"RSA with another algorithm", newRSA(2048), crypto.SHA256, "sha384", "no matching signatures: crypto/rsa: verification error"},
		{"unknown algorithm", p256, crypto.SHA256, "md5", "!invalid signature algorithm provided md5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			p.attach(".sig", signed(c.key, c.hash, p.claim(nil)))
			a := byKey(c.key)
			a.Algorithm = c.algorithm
			wants(t, p.verify(a), c.want)
		})
	}
}

func TestSignatures(t *testing.T) {
	key, other := newKey(elliptic.P256()), newKey(elliptic.P256())
	broken := func(l layer) layer {
		text := []byte(l.annotations["dev.cosignproject.cosign/signature"])
		raw, _ := base64.StdEncoding.DecodeString(string(text))
		raw[len(raw)-1] ^= 1
		l.annotations["dev.cosignproject.cosign/signature"] = base64.StdEncoding.EncodeToString(raw)
		return l
	}
	for _, c := range []struct {
		name   string
		layers func(*testRegistry) []layer
		demand func(*world.Attestor)
		want   string
	}{
		{"none", func(*testRegistry) []layer { return nil }, nil, "no signatures found"},
		{"wrong key", func(p *testRegistry) []layer { return []layer{signed(other, crypto.SHA256, p.claim(nil))} }, nil,
			"no matching signatures: invalid signature when validating ASN.1 encoded signature"},
		{"two wrong keys", func(p *testRegistry) []layer {
			return []layer{signed(other, crypto.SHA256, p.claim(nil)), signed(newKey(elliptic.P256()), crypto.SHA256, p.claim(nil))}
		}, nil, "no matching signatures: invalid signature when validating ASN.1 encoded signature\n invalid signature when validating ASN.1 encoded signature"},
		{"the second of two", func(p *testRegistry) []layer {
			return []layer{signed(other, crypto.SHA256, p.claim(nil)), signed(key, crypto.SHA256, p.claim(map[string]any{"a": "b"}))}
		}, nil, ""},
		{"a flipped bit of the signature", func(p *testRegistry) []layer { return []layer{broken(signed(key, crypto.SHA256, p.claim(nil)))} }, nil, "no matching signatures: invalid signature"},
		{"a signature that is no base64", func(p *testRegistry) []layer {
			l := signed(key, crypto.SHA256, p.claim(nil))
			l.annotations["dev.cosignproject.cosign/signature"] = "%"
			return []layer{l}
		}, nil, "no matching signatures: illegal base64"},
		{"another payload", func(p *testRegistry) []layer {
			l := signed(key, crypto.SHA256, p.claim(nil))
			l.blob = p.claim(map[string]any{"a": "b"})
			return []layer{l}
		}, nil, "no matching signatures: invalid signature"},
		{"another digest", func(p *testRegistry) []layer {
			return []layer{signed(key, crypto.SHA256, claim(p.repository.Name(), "sha256:"+strings.Repeat("0", 64), nil))}
		}, nil, "no matching signatures: invalid or missing digest in claim: sha256:000"},
		{"no digest", func(*testRegistry) []layer { return []layer{signed(key, crypto.SHA256, []byte(`{"critical":{}}`))} }, nil, "invalid or missing digest in claim: "},
		{"no JSON", func(*testRegistry) []layer { return []layer{signed(key, crypto.SHA256, []byte(`x`))} }, nil, "the payload cannot be read"},
		{"another repository", func(p *testRegistry) []layer {
			return []layer{signed(key, crypto.SHA256, claim("ghcr.io/elsewhere/app", p.digest.String(), nil))}
		}, nil, ""},
		{"a payload that is too long", func(p *testRegistry) []layer {
			return []layer{signed(key, crypto.SHA256, p.claim(map[string]any{"a": strings.Repeat("x", 1<<20)}))}
		}, nil, "layer size 1048"},
		{"51 signatures", func(p *testRegistry) []layer {
			return slices.Repeat([]layer{signed(key, crypto.SHA256, p.claim(nil))}, 51)
		}, nil, "the image has 51 signatures, but at most 50 are read"},
		{"annotations", func(p *testRegistry) []layer {
			return []layer{signed(key, crypto.SHA256, p.claim(map[string]any{"env": "prod", "x": "y"}))}
		},
			func(a *world.Attestor) { a.Annotations = map[string]string{"env": "prod"} }, ""},
		{"annotations are no wildcards", func(p *testRegistry) []layer {
			return []layer{signed(key, crypto.SHA256, p.claim(map[string]any{"env": "prod"}))}
		},
			func(a *world.Attestor) { a.Annotations = map[string]string{"env": "*"} }, "no signature matched the required annotations"},
		{"missing annotations", func(p *testRegistry) []layer { return []layer{signed(key, crypto.SHA256, p.claim(nil))} },
			func(a *world.Attestor) { a.Annotations = map[string]string{"env": "prod"} }, "no signature matched the required annotations"},
		{"annotations of another signer", func(p *testRegistry) []layer {
			return []layer{signed(key, crypto.SHA256, p.claim(nil)), signed(other, crypto.SHA256, p.claim(map[string]any{"env": "prod"}))}
		}, func(a *world.Attestor) { a.Annotations = map[string]string{"env": "prod"} }, "no signature matched the required annotations"},
		{"annotations of two signatures", func(p *testRegistry) []layer {
			return []layer{signed(key, crypto.SHA256, p.claim(map[string]any{"a": "1"})), signed(key, crypto.SHA256, p.claim(map[string]any{"b": "2"}))}
		}, func(a *world.Attestor) { a.Annotations = map[string]string{"a": "1", "b": "2"} }, "no signature matched the required annotations"},
		{"no log entry, and a log that is out of reach", func(p *testRegistry) []layer { return []layer{signed(key, crypto.SHA256, p.claim(nil))} },
			func(a *world.Attestor) { a.Rekor.Ignore = false }, "!failed to get trusted material: the trust is out of reach"},
		{"a wrong key needs no log", func(p *testRegistry) []layer { return []layer{signed(other, crypto.SHA256, p.claim(nil))} },
			func(a *world.Attestor) { a.Rekor.Ignore = false }, "no matching signatures: invalid signature"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			if layers := c.layers(p); layers != nil {
				p.attach(".sig", layers...)
			}
			a := byKey(key)
			if c.demand != nil {
				c.demand(a)
			}
			wants(t, p.verify(a), c.want)
		})
	}
}

// TestPlaces looks for signatures at the places that policies set.
func TestPlaces(t *testing.T) {
	key := newKey(elliptic.P256())
	t.Run("another repository", func(t *testing.T) {
		p := newPlace(t)
		elsewhere, err := name.NewRepository(p.repository.RegistryStr() + "/signatures")
		if err != nil {
			t.Fatal(err)
		}
		l := signed(key, crypto.SHA256, p.claim(nil))
		p.push(elsewhere.Tag("sha256-"+p.digest.Hex+".sig"), p.artifact(l))
		wants(t, p.verify(byKey(key)), "no signatures found")
		wants(t, p.verify(byKey(key), func(r *world.SignatureRequest) { r.Repository = elsewhere.Name() }), "")
	})
	t.Run("a bundle in another repository", func(t *testing.T) {
		p := newPlace(t)
		elsewhere, err := name.NewRepository(p.repository.RegistryStr() + "/signatures")
		if err != nil {
			t.Fatal(err)
		}
		p.referTo(elsewhere, kindBundle, nil, keyBundle(key, statement(p.digest, "https://sigstore.dev/cosign/sign/v1", nil, nil)))
		for _, format := range []string{sigverify.Cosign, sigverify.Bundle} {
			wants(t, p.verify(byKey(key), func(r *world.SignatureRequest) { r.Repository, r.Format = elsewhere.Name(), format }), "")
		}
	})
	t.Run("a prefix of the tag", func(t *testing.T) {
		p := newPlace(t)
		p.push(p.repository.Tag("signed-sha256-"+p.digest.Hex+".sig"), p.artifact(signed(key, crypto.SHA256, p.claim(nil))))
		wants(t, p.verify(byKey(key)), "no signatures found")
		wants(t, p.verify(byKey(key), func(r *world.SignatureRequest) { r.TagPrefix = "signed-" }), "")
	})
	t.Run("a referrer of cosign", func(t *testing.T) {
		p := newPlace(t)
		p.refer("application/vnd.dev.cosign.artifact.sig.v1+json", nil, signed(key, crypto.SHA256, p.claim(nil)))
		wants(t, p.verify(byKey(key), func(r *world.SignatureRequest) { r.Referrers = true }), "")
		wants(t, p.verify(byKey(key)), "")
		wants(t, p.verify(byKey(key), func(r *world.SignatureRequest) { r.Format = sigverify.Bundle }), "sigstore bundle verification failed: no matching signatures found")
	})
	t.Run("the tag, when referrers are asked for", func(t *testing.T) {
		p := newPlace(t)
		p.attach(".sig", signed(key, crypto.SHA256, p.claim(nil)))
		wants(t, p.verify(byKey(key), func(r *world.SignatureRequest) { r.Referrers = true }), "")
	})
}

func TestMissingImage(t *testing.T) {
	p := newPlace(t)
	_, err := p.verifier.Verify(context.Background(), world.SignatureRequest{Image: p.repository.Tag("gone").String(), Format: sigverify.Cosign, Attestor: byKey(newKey(elliptic.P256()))})
	wants(t, err, "MANIFEST_UNKNOWN")
}

// TestOutages checks that unreadable content is not treated as a forgery.
func TestOutages(t *testing.T) {
	key := newKey(elliptic.P256())
	status := func(code int, header ...string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			for n := 0; n+1 < len(header); n += 2 {
				w.Header().Set(header[n], header[n+1])
			}
			w.WriteHeader(code)
			return true
		}
	}
	once := func(next func(http.ResponseWriter, *http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
		var o sync.Once
		return func(w http.ResponseWriter, r *http.Request) (answered bool) {
			o.Do(func() { answered = next(w, r) })
			return answered
		}
	}
	for _, c := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request) bool
		want   string
	}{
		{"401", status(401), "!401"},
		{"403", status(403), "!403"},
		{"500 always", status(500), "!500"},
		{"500 once", once(status(500)), ""},
		{"429 once", once(status(429, "Retry-After", "1")), ""},
		{"429 for an hour", status(429, "Retry-After", "3600"), "!429"},
		{"a broken connection", func(w http.ResponseWriter, _ *http.Request) bool { panic(http.ErrAbortHandler) }, "!EOF"},
		{"another manifest's content", func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/blobs/") {
				return false
			}
			_, _ = w.Write([]byte("{}"))
			return true
		}, "!the content from the registry does not have the digest"},
		{"an endless manifest", func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, ".sig") {
				return false
			}
			for range 1 << 12 {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil {
					break
				}
			}
			return true
		}, "!answers with more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			p.attach(".sig", signed(key, crypto.SHA256, p.claim(map[string]any{"a": "b"})))
			p.renew()
			p.answers(c.answer)
			wants(t, p.verify(byKey(key)), c.want)
		})
	}
}

// TestOutagesCountOnce checks that signatures that are read again after an outage are not counted again.
func TestOutagesCountOnce(t *testing.T) {
	key := newKey(elliptic.P256())
	p := newPlace(t)
	const kind = "https://example.com/scan/v1"
	var layers []layer
	for n := range 20 {
		layers = append(layers, p.attested(key, kind, map[string]any{"n": n}))
	}
	p.attach(".att", layers...)
	p.renew()
	p.answers(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	for range 4 {
		_, err := p.statements(byKey(key), kind)
		wants(t, err, "!403")
	}
	p.answers(nil)
	if found, err := p.statements(byKey(key), kind); err != nil || len(found) != 20 {
		t.Errorf("%d statements, %v", len(found), err)
	}
}

// TestMessageBundles verifies bundles of all versions that sign the image's manifest itself.
func TestMessageBundles(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	message := func(key crypto.Signer, mediaType string, hash crypto.Hash, signed, named []byte) layer {
		h := hash.New()
		h.Write(named)
		algorithm := map[crypto.Hash]string{crypto.SHA256: "SHA2_256", crypto.SHA512: "SHA2_512"}[hash]
		text, _ := json.Marshal(object{
			"mediaType": mediaType, "verificationMaterial": object{"publicKey": object{"hint": "key"}},
			"messageSignature": object{"messageDigest": object{"algorithm": algorithm, "digest": h.Sum(nil)}, "signature": sign(key, hash, signed)},
		})
		return layer{text, kindBundle, nil}
	}
	p256, p521, other := newKey(elliptic.P256()), newKey(elliptic.P521()), newKey(elliptic.P256())
	for _, c := range []struct {
		name string
		make func(manifest []byte) layer
		by   crypto.Signer
		want string
	}{
		{"0.3", func(m []byte) layer { return message(p256, kindBundle, crypto.SHA256, m, m) }, p256, ""},
		{"0.2", func(m []byte) layer {
			return message(p256, "application/vnd.dev.sigstore.bundle+json;version=0.2", crypto.SHA256, m, m)
		}, p256, ""},
		{"0.1", func(m []byte) layer {
			return message(p256, "application/vnd.dev.sigstore.bundle+json;version=0.1", crypto.SHA256, m, m)
		}, p256, ""},
		{"0.4", func(m []byte) layer {
			return message(p256, "application/vnd.dev.sigstore.bundle.v0.4+json", crypto.SHA256, m, m)
		}, p256, "bundle version v0.4 is not yet supported"},
		{"P-521 and sha512", func(m []byte) layer { return message(p521, kindBundle, crypto.SHA512, m, m) }, p521, ""},
		{"Ed25519", func(m []byte) layer { return message(ed, kindBundle, crypto.SHA256, m, m) }, ed, ""},
		{"another key", func(m []byte) layer { return message(other, kindBundle, crypto.SHA256, m, m) }, p256, "invalid signature"},
		{"other bytes", func(m []byte) layer { return message(p256, kindBundle, crypto.SHA256, []byte("x"), []byte("x")) }, p256, "the signature is for a different digest"},
		{"other bytes under the digest of the image", func(m []byte) layer { return message(p256, kindBundle, crypto.SHA256, []byte("x"), m) }, p256, "invalid signature"},
		{"other bytes by Ed25519", func(m []byte) layer { return message(ed, kindBundle, crypto.SHA256, []byte("x"), m) }, ed, "failed to verify signature"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			manifest, err := p.image.RawManifest()
			if err != nil {
				t.Fatal(err)
			}
			p.refer(kindBundle, map[string]string{"dev.sigstore.bundle.content": "message-signature"}, c.make(manifest))
			wants(t, p.verify(byKey(c.by), func(r *world.SignatureRequest) { r.Format = sigverify.Bundle }), c.want)
		})
	}
}

// TestRequests is the table of the requests that a verification may send.
func TestRequests(t *testing.T) {
	key := newKey(elliptic.P256())
	tag := func(r *world.SignatureRequest) { r.Image = strings.Split(r.Image, "@")[0] + ":v1" }
	bundles := func(r *world.SignatureRequest) { r.Format = sigverify.Bundle }
	sig := func(p *testRegistry) { p.attach(".sig", signed(key, crypto.SHA256, p.claim(nil))) }
	bundle := func(p *testRegistry) {
		p.refer(kindBundle, bundleNotes("https://sigstore.dev/cosign/sign/v1"), keyBundle(key, statement(p.digest, "https://sigstore.dev/cosign/sign/v1", nil, nil)))
	}
	for _, c := range []struct {
		name   string
		write  func(*testRegistry)
		change []func(*world.SignatureRequest)
		want   int // if the habits of the repository are known
		first  int // otherwise
	}{
		{"a key, by digest", sig, nil, 1, 2},
		{"a key, by tag", sig, []func(*world.SignatureRequest){tag}, 2, 3},
		{"a bundle, by digest", bundle, []func(*world.SignatureRequest){bundles}, 3, 3},
		{"a bundle, by tag", bundle, []func(*world.SignatureRequest){bundles, tag}, 4, 4},
		{"a bundle for a policy of type Cosign, by tag", bundle, []func(*world.SignatureRequest){tag}, 4, 5},
		{"unsigned, by digest", func(*testRegistry) {}, nil, 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			c.write(p)
			var later atomic.Int64
			begun := time.Now()
			p.renew(func(o *sigverify.Options) {
				o.Now = func() time.Time { return begun.Add(time.Duration(later.Load())) }
			})
			p.answers(p.besideReferrers)
			_ = p.verify(byKey(key), c.change...)
			p.answers(nil)
			if got := p.requests(); len(got) != c.first {
				t.Errorf("the first verification asks %d times, want %d: %s", len(got), c.first, strings.Join(got, ", "))
			}
			later.Store(int64(time.Minute)) // nothing is cached except the habits
			_ = p.verify(byKey(key), c.change...)
			if got := p.requests(); len(got) != c.want {
				t.Errorf("%d requests, want %d: %s", len(got), c.want, strings.Join(got, ", "))
			}
			_ = p.verify(byKey(key), func(*world.SignatureRequest) {})
			p.requests()
			if _ = p.verify(byKey(key)); len(p.requests()) != 0 {
				t.Error("what was read a moment ago is read again")
			}
		})
	}
}

// TestSingleFlight verifies the same image for many Pods concurrently.
func TestSingleFlight(t *testing.T) {
	key := newKey(elliptic.P256())
	p := newPlace(t)
	p.attach(".sig", signed(key, crypto.SHA256, p.claim(nil)))
	now := time.Now()
	p.renew(func(o *sigverify.Options) { o.Now = func() time.Time { return now } }) // cached data does not expire
	p.answers(p.besideReferrers)
	var wait sync.WaitGroup
	for range 100 {
		wait.Go(func() { wants(t, p.verify(byKey(key)), "") })
	}
	wait.Wait()
	if got := p.requests(); len(got) != 2 {
		t.Errorf("%d requests: %s", len(got), strings.Join(got, ", "))
	}
}

// TestCancelled checks that nothing keeps running after a review is cancelled.
func TestCancelled(t *testing.T) {
	p := newPlace(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{}, 10)
	p.answers(func(_ http.ResponseWriter, r *http.Request) bool {
		cancel() // the review ends while its request is running
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
			t.Error("the request goes on")
		}
		done <- struct{}{}
		return true
	})
	_, err := p.verifier.Verify(ctx, world.SignatureRequest{Image: p.repository.Digest(p.digest.String()).String(), Format: sigverify.Cosign, Attestor: byKey(newKey(elliptic.P256()))})
	wants(t, err, "!context canceled")
	<-done
}

func TestStatements(t *testing.T) {
	key, other := newKey(elliptic.P256()), newKey(elliptic.P256())
	const kind = "https://example.com/scan/v1"
	for _, c := range []struct {
		name  string
		write func(*testRegistry)
		want  string // the predicates, or an error
	}{
		{"none", func(*testRegistry) {}, "no matching attestations: "},
		{"one", func(p *testRegistry) { p.attach(".att", p.attested(key, kind, map[string]any{"n": 1})) }, "1"},
		{"two signers of one type", func(p *testRegistry) {
			p.attach(".att", p.attested(other, kind, map[string]any{"n": 1}), p.attested(key, kind, map[string]any{"n": 2}))
		}, "2"},
		{"two statements", func(p *testRegistry) {
			p.attach(".att", p.attested(key, kind, map[string]any{"n": 1}), p.attested(key, kind, map[string]any{"n": 2}), p.attested(key, "https://example.com/other", map[string]any{"n": 3}))
		}, "1 2"},
		{"of another signer", func(p *testRegistry) { p.attach(".att", p.attested(other, kind, map[string]any{"n": 1})) },
			"no matching attestations: invalid signature when validating ASN.1 encoded signature"},
		{"of another type", func(p *testRegistry) {
			p.attach(".att", p.attested(key, "https://example.com/other", map[string]any{"n": 1}))
		}, ""},
		{"about another digest", func(p *testRegistry) {
			image := p.digest
			image.Hex = strings.Repeat("0", 64)
			p.attach(".att", layer{envelope(key, statement(image, kind, map[string]any{"n": 1}, nil)), kindEnvelope, nil})
		}, "no matching attestations: no subject of the statement has the digest"},
		{"in a bundle", func(p *testRegistry) {
			p.refer(kindBundle, bundleNotes(kind), keyBundle(key, statement(p.digest, kind, map[string]any{"n": 1}, nil)))
		}, "1"},
		{"in both", func(p *testRegistry) {
			p.attach(".att", p.attested(key, kind, map[string]any{"n": 1}))
			p.refer(kindBundle, bundleNotes(kind), keyBundle(key, statement(p.digest, kind, map[string]any{"n": 2}, nil)))
		}, "1 2"},
		{"an envelope that is none", func(p *testRegistry) { p.attach(".att", layer{[]byte("x"), kindEnvelope, nil}) }, "no matching attestations: the envelope cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			c.write(p)
			found, err := p.statements(byKey(key), kind)
			if err != nil {
				wants(t, err, c.want)
				return
			}
			var got []string
			for _, s := range found {
				n, _ := s.Predicate.(map[string]any)["n"].(int64)
				got = append(got, strconv.FormatInt(n, 10))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestT21AttestationsAreNoSignatures tests that for type Cosign an attestation, such as that of a failed scan, does not count as a signature of
// the image, whatever the list of referrers says about it.
func TestT21AttestationsAreNoSignatures(t *testing.T) {
	const sign, scan = "https://sigstore.dev/cosign/sign/v1", "https://cosign.sigstore.dev/attestation/vuln/v1"
	key := newKey(elliptic.P256())
	for _, notes := range []map[string]string{nil, bundleNotes(scan), bundleNotes(sign), {"dev.sigstore.bundle.content": "message-signature"}} {
		p := newPlace(t)
		p.refer(kindBundle, notes, keyBundle(key, statement(p.digest, scan, map[string]any{"scanner": map[string]any{"result": "failed"}}, nil)))
		wants(t, p.verify(byKey(key)), "it is not a signature of the image, but an attestation of the type "+scan)
		if found, err := p.statements(byKey(key), scan); notes["dev.sigstore.bundle.predicateType"] != sign && (err != nil || len(found) != 1) {
			t.Errorf("statements: %v, %v", found, err)
		}
		p.refer(kindBundle, nil, keyBundle(key, statement(p.digest, sign, nil, nil)))
		p.renew()
		wants(t, p.verify(byKey(key)), "")
	}
}

func TestBundles(t *testing.T) {
	key, other := newKey(elliptic.P256()), newKey(elliptic.P256())
	const sign = "https://sigstore.dev/cosign/sign/v1"
	for _, c := range []struct {
		name   string
		write  func(*testRegistry)
		demand func(*world.Attestor)
		want   string
	}{
		{"none", func(*testRegistry) {}, nil, "sigstore bundle verification failed: no matching signatures found"},
		{"one", func(p *testRegistry) {
			p.refer(kindBundle, bundleNotes(sign), keyBundle(key, statement(p.digest, sign, nil, nil)))
		}, nil, ""},
		{"any type of statement counts", func(p *testRegistry) {
			p.refer(kindBundle, nil, keyBundle(key, statement(p.digest, "https://slsa.dev/provenance/v1", nil, nil)))
		}, nil, ""},
		{"of another signer", func(p *testRegistry) { p.refer(kindBundle, nil, keyBundle(other, statement(p.digest, sign, nil, nil))) }, nil,
			"sigstore bundle verification failed: no matching signatures found: invalid signature"},
		{"annotations", func(p *testRegistry) {
			p.refer(kindBundle, nil, keyBundle(key, statement(p.digest, sign, nil, map[string]any{"env": "prod"})))
		},
			func(a *world.Attestor) { a.Annotations = map[string]string{"env": "prod"} }, ""},
		{"other annotations", func(p *testRegistry) {
			p.refer(kindBundle, nil, keyBundle(key, statement(p.digest, sign, nil, map[string]any{"env": "test"})))
		},
			func(a *world.Attestor) { a.Annotations = map[string]string{"env": "prod"} }, "no signature matched the required annotations"},
		{"60 unrelated referrers", func(p *testRegistry) {
			for n := range 60 {
				p.refer("application/vnd.example.sbom", map[string]string{"n": strconv.Itoa(n)}, layer{[]byte("{}"), "application/json", nil})
			}
			p.refer(kindBundle, nil, keyBundle(key, statement(p.digest, sign, nil, nil)))
		}, nil, ""},
		{"no log entry", func(p *testRegistry) { p.refer(kindBundle, nil, keyBundle(key, statement(p.digest, sign, nil, nil))) },
			func(a *world.Attestor) { a.Rekor.Ignore, a.Rekor.PublicKey = false, publicPEM(other) }, "not enough verified log entries from transparency log: 0 < 1"},
		{"no JSON", func(p *testRegistry) { p.refer(kindBundle, nil, layer{[]byte("x"), kindBundle, nil}) }, nil, "the bundle cannot be read"},
		{"no layer", func(p *testRegistry) { p.refer(kindBundle, nil) }, nil, "the bundle has no layer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			c.write(p)
			a := byKey(key)
			if c.demand != nil {
				c.demand(a)
			}
			wants(t, p.verify(a, func(r *world.SignatureRequest) { r.Format = sigverify.Bundle }), c.want)
		})
	}
}
