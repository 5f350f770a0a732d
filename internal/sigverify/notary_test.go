package sigverify_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/notaryproject/notation-core-go/signature"

	"ephor.invalid/ephor/internal/registry"
	"ephor.invalid/ephor/internal/sigverify"
	"ephor.invalid/ephor/internal/sigverify/fixture"
	"ephor.invalid/ephor/internal/sigverify/notary"
	"ephor.invalid/ephor/internal/world"
)

const (
	kindNotary = "application/vnd.cncf.notary.signature"
	kindJWS    = "application/jose+json"
	kindCOSE   = "application/cose"
	kindSBOM   = "sbom/cyclone-dx"
)

// notarySigner is a signer with its own certificate.
type notarySigner struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newNotarySigner(t testing.TB, change ...func(*x509.Certificate)) notarySigner {
	t.Helper()
	key := newKey(elliptic.P256())
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{Country: []string{"US"}, Province: []string{"WA"}, Organization: []string{"Test"}, CommonName: "signer"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}
	for _, f := range change {
		f(c)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return notarySigner{c, key}
}

func (s notarySigner) attestor() *world.Attestor {
	return &world.Attestor{Certificate: &world.CertificateAttestor{Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.cert.Raw}))}}
}

func (s notarySigner) sign(t testing.TB, mediaType string, d v1.Descriptor) layer {
	t.Helper()
	text, _ := json.Marshal(map[string]any{"targetArtifact": map[string]any{"mediaType": d.MediaType, "digest": d.Digest.String(), "size": d.Size}})
	signer, err := signature.NewLocalSigner([]*x509.Certificate{s.cert}, s.key)
	if err != nil {
		t.Fatal(err)
	}
	e, err := signature.NewEnvelope(mediaType)
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.Sign(&signature.SignRequest{
		Payload: signature.Payload{ContentType: "application/vnd.cncf.notary.payload.v1+json", Content: text},
		Signer:  signer, SigningTime: time.Now().Add(-time.Minute), SigningScheme: signature.SigningSchemeX509,
	})
	if err != nil {
		t.Fatal(err)
	}
	return layer{blob: out, kind: mediaType}
}

// described returns the descriptor of the image, which is what is signed.
func (p *testRegistry) described() v1.Descriptor {
	kind, _ := p.image.MediaType()
	text, _ := p.image.RawManifest()
	return v1.Descriptor{MediaType: kind, Digest: p.digest, Size: int64(len(text))}
}

// attachTo writes an artefact that refers to another one, and returns its descriptor.
func (p *testRegistry) attachTo(repository name.Repository, subject v1.Descriptor, kind string, layers ...layer) v1.Descriptor {
	p.t.Helper()
	image := mutate.ConfigMediaType(p.artifact(layers...), types.MediaType(kind))
	image = mutate.Subject(image, subject).(v1.Image)
	digest, err := image.Digest()
	if err != nil {
		p.t.Fatal(err)
	}
	text, _ := image.RawManifest()
	mediaType, _ := image.MediaType()
	p.push(repository.Digest(digest.String()), image)
	return v1.Descriptor{MediaType: mediaType, Digest: digest, Size: int64(len(text))}
}

func (p *testRegistry) withNotary(o notary.Options) {
	p.t.Helper()
	v, err := notary.New(o)
	if err != nil {
		p.t.Fatal(err)
	}
	p.renew(func(o *sigverify.Options) { o.Notary = v })
}

func byNotary(r *world.SignatureRequest) { r.Format = sigverify.Notary }

func TestNotarySignatures(t *testing.T) {
	ours, others := newNotarySigner(t), newNotarySigner(t)
	other := v1.Descriptor{MediaType: types.OCIManifestSchema1, Size: 1, Digest: v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("ab", 32)}}
	for label, c := range map[string]struct {
		signatures func(p *testRegistry)
		want       string
	}{
		"none": {func(*testRegistry) {}, `no signature is associated with "⟨image⟩", make sure the artifact was signed successfully`},
		"JWS": {func(p *testRegistry) {
			p.attachTo(p.repository, p.described(), kindNotary, ours.sign(t, kindJWS, p.described()))
		}, ""},
		"COSE": {func(p *testRegistry) {
			p.attachTo(p.repository, p.described(), kindNotary, ours.sign(t, kindCOSE, p.described()))
		}, ""},
		"of others": {func(p *testRegistry) {
			p.attachTo(p.repository, p.described(), kindNotary, others.sign(t, kindJWS, p.described()))
		}, "failed to verify ⟨image⟩: signature verification failed\nfailed to verify signature with digest sha256:"},
		"the second": {func(p *testRegistry) {
			p.attachTo(p.repository, p.described(), kindNotary, others.sign(t, kindJWS, p.described()))
			p.attachTo(p.repository, p.described(), kindNotary, layer{blob: []byte("garbage"), kind: kindCOSE})
			p.attachTo(p.repository, p.described(), kindNotary, ours.sign(t, kindCOSE, p.described()))
		}, ""},
		"of another image": {func(p *testRegistry) {
			p.attachTo(p.repository, p.described(), kindNotary, ours.sign(t, kindJWS, other))
		}, "content descriptor mismatch"},
		"two layers": {func(p *testRegistry) {
			p.attachTo(p.repository, p.described(), kindNotary, ours.sign(t, kindJWS, p.described()), layer{blob: []byte("x"), kind: kindJWS})
		}, "multiple layers in signature not supported"},
		"too long": {func(p *testRegistry) {
			p.attachTo(p.repository, p.described(), kindNotary, layer{blob: make([]byte, 1<<20+1), kind: kindJWS})
		}, "payload size 1048577 exceeds 1048576 for digest sha256:"},
		"the eleventh": {func(p *testRegistry) {
			for range 11 {
				p.attachTo(p.repository, p.described(), kindNotary, others.sign(t, kindJWS, p.described()))
			}
		}, "The configured limit of 10 signatures to verify per artifact exceeded"},
		"among unrelated referrers": {func(p *testRegistry) {
			for n := range 60 {
				p.attachTo(p.repository, p.described(), fmt.Sprintf("team/unrelated-%d", n), layer{blob: []byte("{}"), kind: "application/json"})
			}
			p.attachTo(p.repository, p.described(), kindNotary, ours.sign(t, kindJWS, p.described()))
		}, ""},
	} {
		t.Run(label, func(t *testing.T) {
			p := newPlace(t)
			c.signatures(p)
			p.withNotary(notary.Options{})
			wants(t, p.verify(ours.attestor(), byNotary), strings.ReplaceAll(c.want, "⟨image⟩", p.repository.Name()+"@"+p.digest.String()))
		})
	}
}

func TestNotaryElsewhere(t *testing.T) {
	ours := newNotarySigner(t)
	p := newPlace(t)
	signatures, err := name.NewRepository(p.repository.RegistryStr() + "/team/signatures")
	if err != nil {
		t.Fatal(err)
	}
	p.attachTo(signatures, p.described(), kindNotary, ours.sign(t, kindJWS, p.described()))
	p.withNotary(notary.Options{})
	wants(t, p.verify(ours.attestor(), byNotary), "no signature is associated")
	wants(t, p.verify(ours.attestor(), byNotary, func(r *world.SignatureRequest) { r.Repository = signatures.Name() }), "")
}

func TestNotaryNeedsCertificates(t *testing.T) {
	p := newPlace(t)
	p.withNotary(notary.Options{})
	wants(t, p.verify(byKey(newKey(elliptic.P256())), byNotary), "!certificates are required")
	wants(t, p.verify(&world.Attestor{Certificate: &world.CertificateAttestor{Certificate: "x"}}, byNotary), "no signature is associated")
	p.renew()
	wants(t, p.verify(newNotarySigner(t).attestor(), byNotary), "!signatures of Notary are")
}

// A responder that does not answer does not make a signature a forgery, and another valid signature is sufficient.
func TestNotaryOutage(t *testing.T) {
	revocable, ours := newNotaryChain(t), newNotarySigner(t)
	down := roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") })
	p := newPlace(t)
	p.attachTo(p.repository, p.described(), kindNotary, revocable.sign(t, kindJWS, p.described()))
	both := revocable.attestor()
	both.Certificate.Certificate += "\n" + ours.attestor().Certificate.Certificate
	p.withNotary(notary.Options{HTTP: down})
	wants(t, p.verify(both, byNotary), "!revocation status is unknown")
	p.withNotary(notary.Options{HTTP: down, SkipRevocation: true})
	wants(t, p.verify(both, byNotary), "")
	p.attachTo(p.repository, p.described(), kindNotary, ours.sign(t, kindJWS, p.described()))
	p.withNotary(notary.Options{HTTP: down})
	wants(t, p.verify(both, byNotary), "")
}

// newNotaryChain returns a signer below an authority. The signer's certificate names a responder.
func newNotaryChain(t testing.TB) notaryChain {
	root := newNotarySigner(t, func(c *x509.Certificate) {
		c.IsCA, c.KeyUsage, c.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
		c.Subject.CommonName = "root"
	})
	key := newKey(elliptic.P256())
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{Country: []string{"US"}, Province: []string{"WA"}, Organization: []string{"Test"}, CommonName: "leaf"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, OCSPServer: []string{"http://ocsp.example.com"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}, root.cert, key.Public(), root.key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return notaryChain{notarySigner{leaf, key}, root}
}

type notaryChain struct{ leaf, root notarySigner }

func (c notaryChain) attestor() *world.Attestor { return c.root.attestor() }

func (c notaryChain) sign(t testing.TB, mediaType string, d v1.Descriptor) layer {
	t.Helper()
	text, _ := json.Marshal(map[string]any{"targetArtifact": map[string]any{"mediaType": d.MediaType, "digest": d.Digest.String(), "size": d.Size}})
	signer, err := signature.NewLocalSigner([]*x509.Certificate{c.leaf.cert, c.root.cert}, c.leaf.key)
	if err != nil {
		t.Fatal(err)
	}
	e, _ := signature.NewEnvelope(mediaType)
	out, err := e.Sign(&signature.SignRequest{
		Payload: signature.Payload{ContentType: "application/vnd.cncf.notary.payload.v1+json", Content: text},
		Signer:  signer, SigningTime: time.Now().Add(-time.Minute), SigningScheme: signature.SigningSchemeX509,
	})
	if err != nil {
		t.Fatal(err)
	}
	return layer{blob: out, kind: mediaType}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestNotaryStatements(t *testing.T) {
	ours, others := newNotarySigner(t), newNotarySigner(t)
	document := func(text string) layer { return layer{blob: []byte(text), kind: "application/json"} }
	signed := func(p *testRegistry, by notarySigner, layers ...layer) {
		d := p.attachTo(p.repository, p.described(), kindSBOM, layers...)
		p.attachTo(p.repository, d, kindNotary, by.sign(t, kindJWS, d))
	}
	for label, c := range map[string]struct {
		attach func(p *testRegistry)
		want   string
		names  string
	}{
		"none":     {func(*testRegistry) {}, "no matching attestations found for image ⟨image⟩ with type sbom/cyclone-dx", ""},
		"signed":   {func(p *testRegistry) { signed(p, ours, document(`{"name":"a"}`)) }, "", "a"},
		"unsigned": {func(p *testRegistry) { p.attachTo(p.repository, p.described(), kindSBOM, document(`{"name":"a"}`)) }, "no signature is associated with", ""},
		"unsigned, then signed": {func(p *testRegistry) {
			p.attachTo(p.repository, p.described(), kindSBOM, document(`{"name":"a"}`))
			signed(p, ours, document(`{"name":"b"}`))
		}, "", "b"},
		"of others, then signed": {func(p *testRegistry) {
			signed(p, others, document(`{"name":"a"}`))
			signed(p, ours, document(`{"name":"b"}`))
		}, "", "b"},
		"all that are signed": {func(p *testRegistry) {
			signed(p, ours, document(`{"name":"a"}`))
			signed(p, ours, document(`{"name":"b"}`))
		}, "", "a b"},
		"of others": {func(p *testRegistry) { signed(p, others, document(`{"name":"a"}`)) }, "does not contain any trusted certificate", ""},
		"of another type": {func(p *testRegistry) {
			d := p.attachTo(p.repository, p.described(), "vex/cyclone-dx", document(`{"name":"a"}`))
			p.attachTo(p.repository, d, kindNotary, ours.sign(t, kindJWS, d))
		}, "no matching attestations found", ""},
		"the image is signed, the statement is not": {func(p *testRegistry) {
			p.attachTo(p.repository, p.described(), kindNotary, ours.sign(t, kindJWS, p.described()))
			p.attachTo(p.repository, p.described(), kindSBOM, document(`{"name":"a"}`))
		}, "no signature is associated with", ""},
		"no object":  {func(p *testRegistry) { signed(p, ours, document(`["a"]`)) }, "is not a JSON object", ""},
		"no JSON":    {func(p *testRegistry) { signed(p, ours, document(`a`)) }, "cannot be read", ""},
		"two layers": {func(p *testRegistry) { signed(p, ours, document(`{}`), document(`{"a":1}`)) }, "multiple layers in predicate not supported: sha256:", ""},
		"no layer":   {func(p *testRegistry) { signed(p, ours) }, "no predicate found: sha256:", ""},
		"too many": {func(p *testRegistry) {
			for n := range 51 {
				p.attachTo(p.repository, p.described(), kindSBOM, document(fmt.Sprintf(`{"name":"%d"}`, n)))
			}
		}, "!too many referrers found, max limit is 50", ""},
	} {
		t.Run(label, func(t *testing.T) {
			p := newPlace(t)
			c.attach(p)
			p.withNotary(notary.Options{})
			found, err := p.statements(ours.attestor(), kindSBOM, byNotary)
			wants(t, err, strings.ReplaceAll(c.want, "⟨image⟩", p.repository.Name()+"@"+p.digest.String()))
			names := map[string]bool{}
			for _, s := range found {
				n, _ := s.Predicate.(map[string]any)["name"].(string)
				if names[n] = true; s.Type != kindSBOM {
					t.Errorf("type %s", s.Type)
				}
			}
			for _, n := range strings.Fields(c.names) {
				if !names[n] || len(found) != len(strings.Fields(c.names)) {
					t.Errorf("statements %v, want %s", names, c.names)
				}
			}
		})
	}
}

// A registry may report the media type of the configuration as the type of an artefact.
func TestNotaryStatementsWhoseTypeIsUnsaid(t *testing.T) {
	ours := newNotarySigner(t)
	p := newPlace(t)
	image := mutate.ConfigMediaType(p.artifact(layer{blob: []byte(`{"name":"a"}`), kind: "application/json"}), "application/vnd.oci.empty.v1+json")
	image = mutate.Subject(image, p.described()).(v1.Image)
	raw, err := image.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	_ = json.Unmarshal(raw, &m)
	m["artifactType"] = kindSBOM
	text, _ := json.Marshal(m)
	digest, size, err := v1.SHA256(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	p.push(p.repository.Tag("blobs"), image) // pushes the blobs of the image
	put, _ := http.NewRequest(http.MethodPut, p.server.URL+"/v2/"+p.repository.RepositoryStr()+"/manifests/"+digest.String(), strings.NewReader(string(text)))
	put.Header.Set("Content-Type", string(types.OCIManifestSchema1))
	answer, err := http.DefaultClient.Do(put)
	if err != nil || answer.StatusCode != http.StatusCreated {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
	d := v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: digest, Size: size}
	p.attachTo(p.repository, d, kindNotary, ours.sign(t, kindCOSE, d))
	p.withNotary(notary.Options{})
	found, err := p.statements(ours.attestor(), kindSBOM, byNotary)
	wants(t, err, "")
	if len(found) != 1 {
		t.Errorf("%d statements", len(found))
	}
}

// servedNotary returns a verifier with envelopes that uses a registry of the fixture.
func servedNotary(t testing.TB, handler http.Handler) (*sigverify.Verifier, *fixture.Server) {
	t.Helper()
	server := fixture.Start(t, handler)
	client, err := registry.New(registry.Options{Dial: server.Dial, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	envelopes, err := notary.New(notary.Options{HTTP: noLog{}})
	if err != nil {
		t.Fatal(err)
	}
	v, err := sigverify.New(sigverify.Options{Registry: client, Keys: fixtureKeys{}, Trust: fixtureTrust{}, Notary: envelopes, HTTP: noLog{}})
	if err != nil {
		t.Fatal(err)
	}
	return v, server
}

func byCertificate(names ...string) *world.Attestor {
	a := &world.Attestor{Certificate: &world.CertificateAttestor{}}
	for _, n := range names {
		a.Certificate.Certificate += fixture.Load().Certificates[n] + "\n"
	}
	return a
}

// TestNotaryArtefacts verifies artefacts that notation signed and oras attached, in registries that list them in different ways.
func TestNotaryArtefacts(t *testing.T) {
	f := fixture.Load()
	for mode, label := range map[fixture.Referrers]string{fixture.ReferrersWhole: "whole", fixture.ReferrersRaw: "raw", fixture.ReferrersTag: "tag"} {
		handler := f.Registry()
		handler.Referrers = mode
		v, _ := servedNotary(t, handler)
		for _, c := range []struct {
			image string
			by    *world.Attestor
			sbom  bool
			want  string
		}{
			{"notary-jws", byCertificate("notary"), false, ""},
			{"notary-jws", byCertificate("notary-other"), false, "does not contain any trusted certificate"},
			{"notary-cose", byCertificate("notary"), false, ""},
			{"notary-cose", byCertificate("notary-other", "notary"), false, ""},
			{"notary-chain-jws", byCertificate("notary-chain"), false, ""},
			{"notary-chain-cose", byCertificate("notary-chain"), false, ""},
			{"notary-chain-cose", byCertificate("notary"), false, "does not contain any trusted certificate"},
			{"notary-other", byCertificate("notary"), false, "does not contain any trusted certificate"},
			{"notary-two", byCertificate("notary"), false, ""},
			{"notary-two", byCertificate("notary-other"), false, ""},
			{"notary-brief", byCertificate("notary-brief"), false, "verification time is after certificate"},
			{"notary-expiring", byCertificate("notary"), false, "digital signature has expired on"},
			{"unsigned", byCertificate("notary"), false, "no signature is associated with"},
			{"notary-sbom", byCertificate("notary"), true, ""},
			{"notary-sbom-second", byCertificate("notary"), true, ""},
			{"notary-sbom-other", byCertificate("notary"), true, "does not contain any trusted certificate"},
			{"notary-sbom-other", byCertificate("notary-other"), true, ""},
			{"notary-sbom-unsigned", byCertificate("notary"), true, "no signature is associated with"},
			{"notary-jws", byCertificate("notary"), true, "no matching attestations found"},
		} {
			r := world.SignatureRequest{Image: f.Image(c.image).String(), Format: sigverify.Notary, Attestor: c.by}
			var err error
			if c.sbom {
				r.Type = kindSBOM
				var found []world.Statement
				if _, found, err = v.Statements(t.Context(), r); err == nil && len(found) != 1 {
					t.Errorf("%s, %s: %d statements", label, c.image, len(found))
				}
			} else {
				_, err = v.Verify(t.Context(), r)
			}
			t.Run(label+"/"+c.image, func(t *testing.T) {
				if strings.Contains(c.want, "expired") || strings.Contains(c.want, "is after") {
					if age := time.Since(f.Made); age < time.Hour {
						t.Skipf("the fixture is %s old; its short signatures are valid for up to an hour", age)
					}
				}
				wants(t, err, c.want)
			})
		}
	}
}

// The manifest of the image, the list, and the manifest and the envelope of one signature are read once, after a request that finds out how
// to log in. A tag needs one more request.
func TestNotaryRequests(t *testing.T) {
	f := fixture.Load()
	image := f.Image("notary-jws")
	for reference, want := range map[string]int{image.String(): 5, image.Tagged(): 6} {
		v, server := servedNotary(t, f.Registry())
		for range 2 { // the second one is cached, except for the digest of the tag
			if _, err := v.Verify(t.Context(), world.SignatureRequest{Image: reference, Format: sigverify.Notary, Attestor: byCertificate("notary")}); err != nil {
				t.Fatal(err)
			}
			if n := len(server.Requests()); n != want {
				t.Errorf("%s: %d requests, want %d: %q", reference, n, want, server.Requests())
			}
			if strings.Contains(reference, "@") {
				continue
			}
			break
		}
	}
}

// TestNotaryFaults: a fault of a registry never counts as a signature, and never makes a signature invalid.
func TestNotaryFaults(t *testing.T) {
	f := fixture.Load()
	image := f.Image("notary-two")
	for path, c := range map[string]struct {
		code int
		want string
	}{
		"/referrers/": {500, "!"}, "/blobs/": {500, "!"}, "/manifests/": {403, "!"},
	} {
		handler := f.Registry()
		v, _ := servedNotary(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, path) {
				w.WriteHeader(c.code)
				return
			}
			handler.ServeHTTP(w, r)
		}))
		_, err := v.Verify(t.Context(), world.SignatureRequest{Image: image.String(), Format: sigverify.Notary, Attestor: byCertificate("notary")})
		t.Run(path, func(t *testing.T) { wants(t, err, c.want) })
	}
}
