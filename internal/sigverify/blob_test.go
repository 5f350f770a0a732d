package sigverify_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/sigverify"
	"ephor.invalid/ephor/internal/world"
)

// ofText returns a layer of the tag .sig as a signature of its payload.
func (l layer) ofText() world.BlobSignature {
	sig, _ := base64.StdEncoding.DecodeString(l.annotations["dev.cosignproject.cosign/signature"])
	return world.BlobSignature{
		Signature: sig, Certificate: l.annotations["dev.sigstore.cosign/certificate"], LogEntry: []byte(l.annotations["dev.sigstore.cosign/bundle"]),
	}
}

// TestBlob verifies signatures of texts, with every kind of attestor.
func TestBlob(t *testing.T) {
	p := newPlace(t)
	s := newServices(t)
	p.trust = s
	text := []byte("kind: Service\n")
	key, rsaKey, other := newKey(elliptic.P256()), newRSA(2048), newKey(elliptic.P384())
	fingerprint := func(k crypto.Signer) string {
		der, err := x509.MarshalPKIXPublicKey(k.Public())
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(der)
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	by := func(k crypto.Signer, change ...func(*world.Attestor)) *world.Attestor {
		a := byKey(k)
		for _, f := range change {
			f(a)
		}
		return a
	}
	team := byName("https://issuer.example", "https://github.com/team/*")
	someone := s.person()
	logged := s.signedBy(someone, text, time.Now()).ofText()
	unlogged := s.signedBy(someone, text, time.Time{}).ofText()
	keyed := signed(key, crypto.SHA256, text).ofText()
	foreign := newServices(t)
	for _, c := range []struct {
		name       string
		content    []byte
		signatures []world.BlobSignature
		attestor   *world.Attestor
		signer     string
		want       string
	}{
		{"a key", text, []world.BlobSignature{keyed}, by(key), fingerprint(key), ""},
		{"the second of two", text, []world.BlobSignature{signed(rsaKey, crypto.SHA256, text).ofText(), keyed}, by(key), fingerprint(key), ""},
		{"another algorithm", text, []world.BlobSignature{signed(rsaKey, crypto.SHA512, text).ofText()}, by(rsaKey, func(a *world.Attestor) { a.Algorithm = "sha512" }), fingerprint(rsaKey), ""},
		{"not that algorithm", text, []world.BlobSignature{signed(rsaKey, crypto.SHA512, text).ofText()}, by(rsaKey), "", "verification error"},
		{"another key", text, []world.BlobSignature{keyed}, by(other), "", "invalid signature"},
		{"another text", []byte("kind: Secret\n"), []world.BlobSignature{keyed}, by(key), "", "invalid signature"},
		{"none", text, nil, by(key), "", "no signatures found"},
		{"an empty one", text, []world.BlobSignature{{}}, by(key), "", "the signature is empty"},
		{"too many", text, make([]world.BlobSignature, 33), by(key), "", "it has 33 signatures, but at most 32 are read"},
		{"a key that is not logged", text, []world.BlobSignature{keyed}, by(key, func(a *world.Attestor) { a.Rekor = world.Rekor{URL: p.server.URL} }), "", "!searching the transparency log"},
		{"an identity", text, []world.BlobSignature{logged}, team, workflow, ""},
		{"another identity", text, []world.BlobSignature{logged}, byName("https://issuer.example", "https://github.com/other/*"), "", "subject mismatch: expected https://github.com/other/*"},
		{"an identity without a log entry", text, []world.BlobSignature{unlogged}, byName("https://issuer.example", "https://github.com/team/*"), "", "!searching the transparency log"},
		{"an identity over another text", []byte("kind: Secret\n"), []world.BlobSignature{logged}, team, "", "invalid signature"},
		{"an identity of another authority", text, []world.BlobSignature{foreign.signedBy(foreign.person(), text, time.Now()).ofText()}, team, "", "transparency log"},
		{"garbage for a certificate", text, []world.BlobSignature{{Signature: keyed.Signature, Certificate: "x"}}, team, "", "the certificate cannot be read"},
		{"garbage for a log entry", text, []world.BlobSignature{{Signature: keyed.Signature, LogEntry: []byte("x")}}, by(key), "", "the log entry cannot be read"},
		{"a log entry that is too long", text, []world.BlobSignature{{Signature: keyed.Signature, LogEntry: bytes.Repeat([]byte("x"), 300<<10)}}, by(key), "", "the log entry is longer than"},
		{"a certificate that is named", text, []world.BlobSignature{s.signedBy(someone, text, time.Time{}).ofText()},
			&world.Attestor{Certificate: &world.CertificateAttestor{Certificate: certPEM(someone.cert)}, Rekor: world.Rekor{Ignore: true}}, fingerprint(someone.key), ""},
		{"whom a chain vouches for", text, []world.BlobSignature{logged}, &world.Attestor{Certificate: &world.CertificateAttestor{Chain: certPEM(s.root)}}, workflow, ""},
		{"whom another chain vouches for", text, []world.BlobSignature{logged}, &world.Attestor{Certificate: &world.CertificateAttestor{Chain: certPEM(foreign.root)}}, "", "failed to verify leaf certificate"},
		{"annotations", text, []world.BlobSignature{keyed}, by(key, func(a *world.Attestor) { a.Annotations = map[string]string{"env": "prod"} }), "", "no signature matched the required annotations"},
		{"no attestor that can be asked", text, []world.BlobSignature{keyed}, &world.Attestor{}, "", "!the attestor has no key, certificate or identity"},
	} {
		t.Run(c.name, func(t *testing.T) {
			signer, err := p.verifier.Blob(t.Context(), world.BlobRequest{Content: c.content, Signatures: c.signatures, Attestor: c.attestor})
			wants(t, err, c.want)
			if signer != c.signer {
				t.Errorf("signed by %q, want %q", signer, c.signer)
			}
		})
	}
	// The trusted material is fetched only if it is needed.
	p.trust, p.trusted = nil, 0
	if _, err := p.verifier.Blob(t.Context(), world.BlobRequest{Content: text, Signatures: []world.BlobSignature{keyed}, Attestor: by(key)}); err != nil || p.trusted != 0 {
		t.Errorf("%v, the trust was asked %d times", err, p.trusted)
	}
	_, err := p.verifier.Blob(t.Context(), world.BlobRequest{Content: text, Signatures: []world.BlobSignature{logged}, Attestor: byName("https://issuer.example", "*")})
	wants(t, err, "!the trust is out of reach")
}

// TestBlobKeys fetches keys in the same way as for images: all versions of a key, within the limits of the policy.
func TestBlobKeys(t *testing.T) {
	p := newPlace(t)
	before, now := newKey(elliptic.P256()), newKey(elliptic.P256())
	asked := versions{keys: []crypto.PublicKey{now.Public(), before.Public()}}
	p.renew(func(o *sigverify.Options) { o.Keys = &asked })
	text := []byte("text")
	a := &world.Attestor{Key: &world.KeyAttestor{KMS: "hashivault://k"}, Rekor: world.Rekor{Ignore: true}}
	if _, err := p.verifier.Blob(t.Context(), world.BlobRequest{Content: text, Signatures: []world.BlobSignature{signed(before, crypto.SHA256, text).ofText()}, Attestor: a, Confined: true}); err != nil {
		t.Error(err)
	}
	if asked.asked != "hashivault://k true" {
		t.Errorf("asked for %s", asked.asked)
	}
	asked.keys = asked.keys[:1]
	_, err := p.verifier.Blob(t.Context(), world.BlobRequest{Content: text, Signatures: []world.BlobSignature{signed(before, crypto.SHA256, text).ofText()}, Attestor: a})
	wants(t, err, "invalid signature")
}

// versions is a key service with several versions of one key.
type versions struct {
	keys  []crypto.PublicKey
	asked string
}

func (v *versions) Key(ctx context.Context, k *world.KeyAttestor, confined bool) (crypto.PublicKey, error) {
	all, err := v.All(ctx, k, confined)
	return all[0], err
}

func (v *versions) All(_ context.Context, k *world.KeyAttestor, confined bool) ([]crypto.PublicKey, error) {
	v.asked = k.KMS + " " + map[bool]string{true: "true", false: "false"}[confined]
	return v.keys, nil
}
