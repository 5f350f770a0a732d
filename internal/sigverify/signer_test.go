package sigverify_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	memory "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/sigstore/sigstore-go/pkg/root"

	"ephor.invalid/ephor/internal/registry"
	"ephor.invalid/ephor/internal/sigverify"
	"ephor.invalid/ephor/internal/world"
)

// answerer answers a request in place of the registry and returns true, or returns false.
type answerer func(w http.ResponseWriter, r *http.Request) bool

// testRegistry is a registry in memory that counts its requests, with one image and its signatures.
type testRegistry struct {
	t      testing.TB
	server *httptest.Server
	mu     sync.Mutex
	asked  []string
	answer answerer

	repository name.Repository
	image      v1.Image
	digest     v1.Hash
	verifier   *sigverify.Verifier
	trust      root.TrustedMaterial
	trusted    int // the number of calls of Material
}

func newPlace(t testing.TB) *testRegistry {
	t.Helper()
	p := &testRegistry{t: t}
	next := memory.New(memory.WithReferrersSupport(true), memory.Logger(log.New(io.Discard, "", 0)))
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked = append(p.asked, r.Method+" "+strings.ReplaceAll(r.URL.Path, p.hex(), "…"))
		answer := p.answer
		p.mu.Unlock()
		if answer != nil && answer(w, r) {
			return
		}
		next.ServeHTTP(w, r)
	}))
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(p.server.Close)
	var err error
	if p.repository, err = name.NewRepository(strings.TrimPrefix(p.server.URL, "http://") + "/team/app"); err != nil {
		t.Fatal(err)
	}
	if p.image, err = random.Image(64, 1); err != nil {
		t.Fatal(err)
	}
	p.push(p.repository.Tag("v1"), p.image)
	if p.digest, err = p.image.Digest(); err != nil {
		t.Fatal(err)
	}
	p.renew()
	return p
}

func (p *testRegistry) hex() string {
	if p.digest.Hex == "" {
		return "never"
	}
	return p.digest.Hex
}

// renew discards all cached verifications and all recorded requests.
func (p *testRegistry) renew(change ...func(*sigverify.Options)) {
	p.t.Helper()
	client, err := registry.New(registry.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	o := sigverify.Options{Registry: client, Keys: pemKeys{}, Trust: p}
	for _, f := range change {
		f(&o)
	}
	if p.verifier, err = sigverify.New(o); err != nil {
		p.t.Fatal(err)
	}
	p.requests()
}

// answers sets a function that may answer requests before the registry does; nil removes it. Requests of a cancelled
// review may still be running, so the lock is needed.
func (p *testRegistry) answers(f answerer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = f
}

// besideReferrers is an answerer that delays signatures until the list of referrers is requested. A first verification
// requests both in parallel and may end before the second request arrives, which would then be counted later.
func (p *testRegistry) besideReferrers(_ http.ResponseWriter, r *http.Request) bool {
	asked := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.ContainsFunc(p.asked, func(request string) bool { return strings.Contains(request, "/referrers/") })
	}
	for strings.HasSuffix(r.URL.Path, ".sig") && !asked() && r.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
	return false
}

// requests returns the requests since the last call.
func (p *testRegistry) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.asked
	p.asked = nil
	return out
}

var errNoTrust = errors.New("the trust is out of reach")

// Material implements sigverify.Trust.
func (p *testRegistry) Material(context.Context, world.Trust) (root.TrustedMaterial, error) {
	p.mu.Lock()
	p.trusted++
	p.mu.Unlock()
	if p.trust == nil {
		return nil, errNoTrust
	}
	return p.trust, nil
}

func (p *testRegistry) push(at name.Reference, image v1.Image) {
	p.t.Helper()
	if err := remote.Write(at, image); err != nil {
		p.t.Fatal(err)
	}
}

// pemKeys parses keys in PEM.
type pemKeys struct{}

func (pemKeys) Key(_ context.Context, k *world.KeyAttestor, _ bool) (crypto.PublicKey, error) {
	block, _ := pem.Decode([]byte(k.PublicKey))
	if block == nil {
		return nil, errors.New("failed to load public key from PEM: pem to public key: PEM decoding failed")
	}
	return x509.ParsePKIXPublicKey(block.Bytes)
}

// layer is a layer below a tag of cosign: a blob with annotations.
type layer struct {
	blob        []byte
	kind        string
	annotations map[string]string
}

const (
	kindClaim    = "application/vnd.dev.cosign.simplesigning.v1+json"
	kindEnvelope = "application/vnd.dsse.envelope.v1+json"
)

// attach writes layers below a tag of the image.
func (p *testRegistry) attach(suffix string, layers ...layer) {
	p.t.Helper()
	p.push(p.repository.Tag("sha256-"+p.digest.Hex+suffix), p.artifact(layers...))
}

func (p *testRegistry) artifact(layers ...layer) v1.Image {
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	for _, l := range layers {
		var err error
		image, err = mutate.Append(image, mutate.Addendum{Layer: static.NewLayer(l.blob, types.MediaType(l.kind)), Annotations: l.annotations})
		if err != nil {
			p.t.Fatal(err)
		}
	}
	return image
}

// refer writes an artefact that refers to the image.
func (p *testRegistry) refer(kind string, annotations map[string]string, layers ...layer) {
	p.t.Helper()
	p.referTo(p.repository, kind, annotations, layers...)
}

func (p *testRegistry) referTo(repository name.Repository, kind string, annotations map[string]string, layers ...layer) {
	p.t.Helper()
	size, _ := p.image.Size()
	kindOf, _ := p.image.MediaType()
	image := mutate.ConfigMediaType(p.artifact(layers...), types.MediaType(kind))
	image = mutate.Annotations(image, annotations).(v1.Image)
	image = mutate.Subject(image, v1.Descriptor{MediaType: kindOf, Digest: p.digest, Size: size}).(v1.Image) // must come last, or it is lost
	digest, err := image.Digest()
	if err != nil {
		p.t.Fatal(err)
	}
	p.push(repository.Digest(digest.String()), image)
}

// claim returns the text that cosign signs for an image.
func claim(repository, digest string, optional map[string]any) []byte {
	text, _ := json.Marshal(optional)
	if optional == nil {
		text = []byte("null")
	}
	return []byte(fmt.Sprintf(`{"critical":{"identity":{"docker-reference":%q},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":%s}`, repository, digest, text))
}

func (p *testRegistry) claim(optional map[string]any) []byte {
	return claim(p.repository.Name(), p.digest.String(), optional)
}

// signed returns a layer of the tag .sig, signed with a key.
func signed(key crypto.Signer, hash crypto.Hash, payload []byte) layer {
	return layer{payload, kindClaim, map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(sign(key, hash, payload))}}
}

func sign(key crypto.Signer, hash crypto.Hash, message []byte) []byte {
	digest, o := message, crypto.SignerOpts(crypto.Hash(0))
	if _, ok := key.(ed25519.PrivateKey); !ok {
		h := hash.New()
		h.Write(message)
		digest, o = h.Sum(nil), hash
	}
	out, err := key.Sign(rand.Reader, digest, o)
	if err != nil {
		panic(err)
	}
	return out
}

func publicPEM(key crypto.Signer) string {
	encoded, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: encoded}))
}

func newKey(curve elliptic.Curve) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

func newRSA(bits int) *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return key
}

// byKey returns an attestor with a key, without logs.
func byKey(key crypto.Signer) *world.Attestor {
	return &world.Attestor{Key: &world.KeyAttestor{PublicKey: publicPEM(key)}, Rekor: world.Rekor{Ignore: true}, CTLog: world.CTLog{Ignore: true}}
}

// envelope returns an attestation signed with a key.
func envelope(key crypto.Signer, statement []byte) []byte {
	e := dsse.Envelope{
		PayloadType: "application/vnd.in-toto+json", Payload: base64.StdEncoding.EncodeToString(statement),
		Signatures: []dsse.Signature{{Sig: base64.StdEncoding.EncodeToString(sign(key, crypto.SHA256, dsse.PAE("application/vnd.in-toto+json", statement)))}},
	}
	text, _ := json.Marshal(e)
	return text
}

// statement returns an in-toto statement about a digest.
func statement(digest v1.Hash, kind string, predicate any, annotations map[string]any) []byte {
	subject := map[string]any{"name": "app", "digest": map[string]string{digest.Algorithm: digest.Hex}}
	if annotations != nil {
		subject["annotations"] = annotations
	}
	text, _ := json.Marshal(map[string]any{"_type": "https://in-toto.io/Statement/v1", "subject": []any{subject}, "predicateType": kind, "predicate": predicate})
	return text
}

func (p *testRegistry) attested(key crypto.Signer, kind string, predicate any) layer {
	return layer{envelope(key, statement(p.digest, kind, predicate, nil)), kindEnvelope, map[string]string{"predicateType": kind, "dev.cosignproject.cosign/signature": ""}}
}

const kindBundle = "application/vnd.dev.sigstore.bundle.v0.3+json"

// keyBundle returns a bundle of version 0.3 that is signed with a key, without a log entry.
func keyBundle(key crypto.Signer, statement []byte) layer {
	var e map[string]any
	if err := json.Unmarshal(envelope(key, statement), &e); err != nil {
		panic(err)
	}
	text, _ := json.Marshal(map[string]any{
		"mediaType": kindBundle, "verificationMaterial": map[string]any{"publicKey": map[string]any{"hint": "key"}}, "dsseEnvelope": e,
	})
	return layer{text, kindBundle, nil}
}

func bundleNotes(kind string) map[string]string {
	return map[string]string{"dev.sigstore.bundle.content": "dsse-envelope", "dev.sigstore.bundle.predicateType": kind}
}

// verify verifies the image by its digest.
func (p *testRegistry) verify(a *world.Attestor, change ...func(*world.SignatureRequest)) error {
	r := world.SignatureRequest{Image: p.repository.Digest(p.digest.String()).String(), Format: sigverify.Cosign, Attestor: a}
	for _, f := range change {
		f(&r)
	}
	digest, err := p.verifier.Verify(context.Background(), r)
	if err == nil && digest != p.digest.String() {
		p.t.Errorf("the digest is %s, want %s", digest, p.digest)
	}
	return err
}

func (p *testRegistry) statements(a *world.Attestor, kind string, change ...func(*world.SignatureRequest)) ([]world.Statement, error) {
	r := world.SignatureRequest{Image: p.repository.Digest(p.digest.String()).String(), Format: sigverify.Cosign, Attestor: a, Type: kind}
	for _, f := range change {
		f(&r)
	}
	_, out, err := p.verifier.Statements(context.Background(), r)
	return out, err
}

// wants checks an error: empty for none, "!" before the text of an error that is not a refusal.
func wants(t testing.TB, err error, want string) {
	t.Helper()
	var unverified *world.UnverifiedError
	text, outage := strings.CutPrefix(want, "!")
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want == "":
	case err == nil:
		t.Errorf("accepted, want %q", want)
	case errors.As(err, &unverified) == outage:
		t.Errorf("unverified is %t: %v", !outage, err)
	case !strings.Contains(err.Error(), text):
		t.Errorf("error %q, want %q", err, text)
	}
}
