package sigverify

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// refusal is the reason why an artefact does not satisfy an attestor.
type refusal struct {
	reason string
	// genuine: a signer whom the attestor trusts made the artefact, but it does not meet the attestor's other requirements.
	genuine bool
}

func (r *refusal) Error() string { return r.reason }

func refuse(format string, args ...any) error { return &refusal{reason: fmt.Sprintf(format, args...)} }

// check checks that an artefact satisfies all requirements of the attestor for an image, which is identified by its digest. If it does not,
// the error is a *refusal. Any other error means that this could not be determined. Cheap checks come first; checks that need trusted
// material are made only if the others succeed.
func (a *attestor) check(ctx context.Context, f *artefact, of subject) (err error) {
	if f.broken != nil {
		return refuse("%s", f.broken)
	}
	if len(a.keys) == 0 {
		return a.signedBy(ctx, f, of, nil)
	}
	for _, key := range a.keys {
		if err = a.signedBy(ctx, f, of, key); err == nil {
			a.accepted = key
			return nil
		}
		if !isRefusal(err) {
			return err
		}
	}
	return err
}

func isRefusal(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}

// signedBy checks an artefact with one key of the attestor; nil stands for the key of the certificate.
func (a *attestor) signedBy(ctx context.Context, f *artefact, of subject, key crypto.PublicKey) error {
	s := &signer{cert: f.cert, key: key}
	switch {
	case key == nil && f.cert == nil:
		return refuse("no certificate found on signature")
	case key == nil:
		s.key = f.cert.PublicKey
	case a.Key != nil && f.cert != nil && !sameKey(key, f.cert.PublicKey):
		return refuse("public key in certificate does not match the expected public key")
	}
	payload, annotations, err := a.claimed(ctx, f, s.key, of)
	if err != nil {
		return asRefusal(err)
	}
	times, err := a.logTimes(ctx, f, s, payload)
	if err != nil {
		return err
	}
	certified := key == nil || a.roots != nil // an authority must vouch for the signer
	stamped, err := a.stampTimes(ctx, f, certified && len(times) == 0)
	if err != nil {
		return err
	}
	times = append(times, stamped...)
	if err := a.inTime(ctx, f, times, certified); err != nil {
		return err
	}
	if key == nil {
		if err := a.identify(f.cert); err != nil {
			return &refusal{err.Error(), true}
		}
	}
	return annotated(a.Annotations, annotations)
}

// asRefusal converts an error to a refusal if it says that the artefact was read and does not satisfy the attestor.
func asRefusal(err error) error {
	if isUnverified(err) {
		return refuse("%s", err)
	}
	return err
}

// inTime checks the certificate of the signer at the time of the signature. That is the time that logs and authorities prove, or now if
// there is none.
func (a *attestor) inTime(ctx context.Context, f *artefact, times []time.Time, certified bool) error {
	cert := f.cert
	if a.cert != nil {
		cert = a.cert
	}
	if cert == nil || a.cert != nil && !certified {
		return nil // keys do not expire, and a certificate in the policy counts as a key
	}
	now := a.verifier.options.Now()
	if len(times) == 0 {
		switch {
		case a.stamps != nil && a.Rekor.Ignore && certified:
			return refuse("expected a signed timestamp: tsaCertChain is given and no log entry is required")
		case certified && (!a.Rekor.Ignore || f.bundle && !a.CTLog.Ignore):
			return refuse("no valid observer timestamps found")
		case cert.NotAfter.Before(now):
			return refuse("expected a signed timestamp to verify an expired certificate")
		}
		times = []time.Time{now}
	}
	for _, at := range times {
		if err := valid(cert, at); err != nil {
			return err
		}
	}
	if !certified {
		return nil
	}
	return a.vouched(ctx, f, cert, times)
}

// subject is the object that must be signed.
type subject struct {
	digest v1.Hash
	// content reads the bytes to which the digest belongs, for the few signatures that need them.
	content func(context.Context) ([]byte, error)
}

// claimed checks that the key signed the artefact, and that the artefact is about the subject. It returns the payload of a claim, and sets of
// annotations of the signature, one of which must meet the requirements.
func (a *attestor) claimed(ctx context.Context, f *artefact, key crypto.PublicKey, of subject) (payload []byte, annotations []map[string]any, err error) {
	switch {
	case f.envelope != nil:
		message := dsse.PAE(f.envelope.PayloadType, f.statement.payload)
		if err := verifyBytes(key, a.hashes(key, f), message, f.signature); err != nil {
			return nil, nil, err
		}
		if annotations = f.statement.about(of.digest); annotations == nil {
			return nil, nil, refuse("no subject of the statement has the digest %s", of.digest)
		}
		return nil, annotations, nil
	case f.message != nil:
		return nil, []map[string]any{nil}, a.messageSigned(ctx, f, key, of)
	}
	if payload, err = f.payload(ctx); err != nil {
		return nil, nil, err
	}
	if err := verifyBytes(key, a.hashes(key, f), payload, f.signature); err != nil {
		return nil, nil, err
	}
	if f.blob {
		return payload, []map[string]any{nil}, nil
	}
	var claim struct {
		Critical struct {
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
		} `json:"critical"`
		Optional map[string]any `json:"optional"`
	}
	if err := json.Unmarshal(payload, &claim); err != nil {
		return nil, nil, refuse("the payload cannot be read: %s", err)
	}
	if found := claim.Critical.Image.Digest; found != of.digest.String() {
		return nil, nil, refuse("invalid or missing digest in claim: %s", found)
	}
	return payload, []map[string]any{claim.Optional}, nil
}

// messageSigned checks a signature over the content to which the subject's digest belongs.
func (a *attestor) messageSigned(ctx context.Context, f *artefact, key crypto.PublicKey, of subject) error {
	hash := map[string]crypto.Hash{"SHA2_256": crypto.SHA256, "SHA2_384": crypto.SHA384, "SHA2_512": crypto.SHA512}[f.message.DigestAlgorithm()]
	if hash == 0 {
		return refuse("unsupported digest algorithm %s", f.message.DigestAlgorithm())
	}
	_, pure := key.(ed25519.PublicKey)
	if hash == crypto.SHA256 && !pure && of.digest.Algorithm == "sha256" {
		if hex.EncodeToString(f.message.Digest()) != of.digest.Hex {
			return refuse("the signature is for a different digest than %s", of.digest)
		}
		return verifyDigest(key, hash, f.message.Digest(), f.signature)
	}
	content, err := of.content(ctx)
	if err != nil {
		return err
	}
	h := hash.New()
	h.Write(content)
	digest := h.Sum(nil)
	if !slices.Equal(digest, f.message.Digest()) {
		return refuse("the signature is for a different digest than %s", of.digest)
	}
	if k, ok := key.(ed25519.PublicKey); ok {
		if ed25519.Verify(k, content, f.signature) || hash == crypto.SHA512 && ed25519.VerifyWithOptions(k, digest, f.signature, &ed25519.Options{Hash: crypto.SHA512}) == nil {
			return nil
		}
		return refuse("failed to verify signature")
	}
	return verifyDigest(key, hash, digest, f.signature)
}

// hashes returns the hashes over which a signature may be made. For layers of cosign, this is the algorithm of the policy. For bundles, and
// for certificates that include their key, it is the hash that belongs to the key, or sha256, which older clients used. sha256 is also the
// default of a policy that names no algorithm; then the hash that cosign chooses for the key is accepted as well.
func (a *attestor) hashes(key crypto.PublicKey, f *artefact) []crypto.Hash {
	out := []crypto.Hash{a.hash}
	if !f.bundle && len(a.keys) > 0 && a.hash != crypto.SHA256 {
		return out
	}
	more := []crypto.Hash{crypto.SHA256}
	if k, ok := key.(*ecdsa.PublicKey); ok {
		switch k.Curve {
		case elliptic.P384():
			more = append(more, crypto.SHA384)
		case elliptic.P521():
			more = append(more, crypto.SHA512)
		}
	}
	for _, h := range more {
		if !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out
}

// verifyBytes checks a signature over a message with each of the hashes.
func verifyBytes(key crypto.PublicKey, hashes []crypto.Hash, message, signature []byte) (err error) {
	if k, ok := key.(ed25519.PublicKey); ok {
		if ed25519.Verify(k, message, signature) {
			return nil
		}
		digest := sha512.Sum512(message) // cosign signs payloads with the prehashed variant
		if ed25519.VerifyWithOptions(k, digest[:], signature, &ed25519.Options{Hash: crypto.SHA512}) == nil {
			return nil
		}
		return refuse("failed to verify signature")
	}
	for _, hash := range hashes {
		h := hash.New()
		h.Write(message)
		if err = verifyDigest(key, hash, h.Sum(nil), signature); err == nil {
			return nil
		}
	}
	return err
}

func verifyDigest(key crypto.PublicKey, hash crypto.Hash, digest, signature []byte) error {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		if !ecdsa.VerifyASN1(k, digest, signature) {
			return refuse("invalid signature when validating ASN.1 encoded signature")
		}
		return nil
	case *rsa.PublicKey:
		if err := rsa.VerifyPKCS1v15(k, hash, digest, signature); err != nil {
			return refuse("%s", err)
		}
		return nil
	}
	return fmt.Errorf("keys of the type %T are not supported", key)
}

// textAnnotations is Kyverno's text.
const textAnnotations = "no signature matched the required annotations"

// annotated checks that one of the sets of annotations contains all required annotations.
func annotated(required map[string]string, sets []map[string]any) error {
	for _, set := range sets {
		all := true
		for key, want := range required {
			got, ok := set[key].(string)
			all = all && ok && got == want
		}
		if all {
			return nil
		}
	}
	return &refusal{textAnnotations, true}
}

// tally collects the results for the artefacts of one query.
type tally struct {
	reasons []string
	genuine string // the reason why an artefact of the right signer does not satisfy the attestor
	outage  error
}

// add counts an artefact that did not satisfy the attestor.
func (t *tally) add(err error) {
	var r *refusal
	switch {
	case !errors.As(err, &r):
		if t.outage == nil {
			t.outage = err
		}
	case r.genuine && t.genuine == "":
		t.genuine = r.reason
	default:
		t.reasons = append(t.reasons, r.reason)
	}
}
