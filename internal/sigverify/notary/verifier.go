package notary

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/notaryproject/notation-core-go/signature"
	_ "github.com/notaryproject/notation-core-go/signature/cose" // registers the envelope formats
	_ "github.com/notaryproject/notation-core-go/signature/jws"
	notation "github.com/notaryproject/notation-go"
	"github.com/notaryproject/notation-go/verifier"
	"github.com/notaryproject/notation-go/verifier/trustpolicy"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"ephor.invalid/ephor/internal/certificate"
	"ephor.invalid/ephor/internal/sigverify"
	"ephor.invalid/ephor/internal/world"
)

// Options configure revocation queries.
type Options struct {
	// HTTP is the transport for OCSP responders and servers of revocation lists, whose addresses are in certificates. It must
	// reject forbidden addresses; nil means the default transport.
	HTTP http.RoundTripper
	// Permit returns the reason why a namespaced policy may not use a URL, or nil if it may. A nil Permit permits all URLs.
	Permit func(*url.URL) error
	// SkipRevocation disables revocation queries, so that revoked certificates are accepted. It is for clusters that cannot reach a responder.
	SkipRevocation bool
	// Now is the clock for cached answers; nil means the system clock.
	Now func() time.Time
}

// Verifier implements sigverify.NotaryVerifier. It is safe for concurrent use.
type Verifier struct {
	stores     stores
	revocation map[bool]*validators // the key is whether the policy is namespaced
}

var _ sigverify.NotaryVerifier = (*Verifier)(nil)

// New returns a Verifier.
func New(o Options) (*Verifier, error) {
	if o.HTTP == nil {
		o.HTTP = http.DefaultTransport
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	v := &Verifier{revocation: map[bool]*validators{}}
	for _, confined := range []bool{false, true} {
		asks, err := newValidators(o, confined)
		if err != nil {
			return nil, err
		}
		v.revocation[confined] = asks
	}
	return v, nil
}

// maxEnvelope is the maximum size of an envelope, which holds a signature, a chain of certificates and a timestamp.
const maxEnvelope = 1 << 20

// Signature verifies one signature of an artefact with the certificates of a policy. The error is a *world.UnverifiedError if the
// signature is not valid for them. Any other error means that this could not be determined.
func (v *Verifier) Signature(ctx context.Context, a sigverify.NotaryArtefact, certs world.CertificateAttestor, tsa string) (err error) {
	defer func() {
		if p := recover(); p != nil { // the libraries parse untrusted data
			err = fmt.Errorf("the signature of %s cannot be verified: panic: %v", a.Subject.Digest, p)
		}
	}()
	store, err := v.stores.get(certs, tsa)
	if err != nil {
		return err
	}
	if err := readable(a); err != nil {
		return &world.UnverifiedError{Reason: err.Error()}
	}
	asked := v.revocation[a.Confined].recording()
	one, err := verifier.NewWithOptions(store.policy, store, nil, verifier.VerifierOptions{
		RevocationCodeSigningValidator: asked.codeSigning(), RevocationTimestampingValidator: asked.timestamping(),
	})
	if err != nil {
		return err
	}
	subject := ocispec.Descriptor{MediaType: string(a.Subject.MediaType), Digest: digest.Digest(a.Subject.Digest.String()), Size: a.Subject.Size}
	outcome, err := one.Verify(ctx, subject, a.Envelope, notation.VerifierVerifyOptions{
		ArtifactReference: a.Repository + "@" + a.Subject.Digest.String(), SignatureMediaType: a.MediaType,
	})
	if err == nil {
		err = understood(outcome)
	}
	switch unknown := asked.failure(); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case unknown != nil:
		return fmt.Errorf("%w: %w", err, unknown)
	}
	return &world.UnverifiedError{Reason: err.Error()}
}

// Signer returns the subject and issuer of the certificate in an envelope; they are empty if it cannot be read. It does not verify
// anything.
func (v *Verifier) Signer(mediaType string, envelope []byte) (subject, issuer string) {
	defer func() {
		if recover() != nil { // the libraries parse untrusted data
			subject, issuer = "", ""
		}
	}()
	if readable(sigverify.NotaryArtefact{MediaType: mediaType, Envelope: envelope}) != nil {
		return "", ""
	}
	parsed, err := signature.ParseEnvelope(mediaType, envelope)
	if err != nil {
		return "", ""
	}
	content, err := parsed.Content()
	if err != nil || len(content.SignerInfo.CertificateChain) == 0 {
		return "", ""
	}
	cert := content.SignerInfo.CertificateChain[0]
	return cert.Subject.String(), cert.Issuer.String()
}

// understood rejects critical attributes that only plugins can process. The library leaves this check to them.
func understood(o *notation.VerificationOutcome) error {
	if o == nil || o.EnvelopeContent == nil {
		return errors.New("the verification returned no content")
	}
	for _, a := range o.EnvelopeContent.SignerInfo.SignedAttributes.ExtendedAttributes {
		if a.Critical {
			return fmt.Errorf("the critical attribute %v of the signature is unknown", a.Key)
		}
	}
	return nil
}

// readable rejects envelopes that would take long to parse.
func readable(a sigverify.NotaryArtefact) error {
	if len(a.Envelope) > maxEnvelope {
		return fmt.Errorf("payload size %d exceeds %d for digest %s", len(a.Envelope), maxEnvelope, digest.FromBytes(a.Envelope))
	}
	var chainOf func([]byte) ([][]byte, error)
	switch a.MediaType {
	case mediaTypeJWS:
		chainOf = chainJWS
	case mediaTypeCOSE:
		chainOf = chainCOSE
	default:
		return &signature.UnsupportedSignatureFormatError{MediaType: a.MediaType}
	}
	chain, err := chainOf(a.Envelope)
	if err != nil {
		return fmt.Errorf("unable to parse the digital signature, error : %w", err)
	}
	if len(chain) > maxChain {
		return tooLong(len(chain))
	}
	for _, der := range chain {
		if c, err := x509.ParseCertificate(der); err == nil && certificate.CheckKey(c.PublicKey) != nil {
			return certificate.CheckKey(c.PublicKey)
		}
	}
	return nil
}

// policyOf returns the trust policy for the existing stores.
func policyOf(stamps bool) *trustpolicy.Document {
	stores := []string{"ca:" + storeName}
	if stamps {
		stores = append(stores, "tsa:"+storeName)
	}
	return &trustpolicy.Document{Version: "1.0", TrustPolicies: []trustpolicy.TrustPolicy{{
		Name: "policy", RegistryScopes: []string{"*"}, TrustStores: stores, TrustedIdentities: []string{"*"},
		SignatureVerification: trustpolicy.SignatureVerification{VerificationLevel: trustpolicy.LevelStrict.Name},
	}}}
}
