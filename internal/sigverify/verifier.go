package sigverify

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/sigstore-go/pkg/root"

	"ephor.invalid/ephor/internal/fetch"
	"ephor.invalid/ephor/internal/registry"
	"ephor.invalid/ephor/internal/world"
)

// Formats of signatures. The values are those in policies.
const (
	Cosign = "Cosign"
	Bundle = "SigstoreBundle"
	Notary = "Notary"
)

// Keys finds public keys.
type Keys interface {
	// Key returns the key that k names. With confined set, it may only send queries that are permitted for a namespaced policy.
	Key(ctx context.Context, k *world.KeyAttestor, confined bool) (crypto.PublicKey, error)
}

// Trust provides the keys and certificates of Sigstore's services.
type Trust interface {
	// Material returns the last valid material. It uses the network only if there is none.
	Material(ctx context.Context, t world.Trust) (root.TrustedMaterial, error)
}

// NotaryVerifier verifies signatures of Notary.
type NotaryVerifier interface {
	// Signature verifies one signature of the artefact. The error is a *world.UnverifiedError if the signature is not valid for the
	// certificates.
	Signature(ctx context.Context, a NotaryArtefact, certs world.CertificateAttestor, tsa string) error
	// Signer returns the subject and issuer of the certificate in an envelope. It does not verify anything.
	Signer(mediaType string, envelope []byte) (subject, issuer string)
}

// NotaryArtefact is a signature of Notary together with the content it signs.
type NotaryArtefact struct {
	Repository string
	Subject    v1.Descriptor
	MediaType  string
	Envelope   []byte
	Confined   bool // a namespaced policy sends the query
}

// Options configure a Verifier.
type Options struct {
	Registry *registry.Client
	Keys     Keys
	Trust    Trust
	Notary   NotaryVerifier    // nil: Notary's signatures cannot be verified and are an error
	HTTP     http.RoundTripper // the transport for transparency logs; nil means the default transport
	// Permit returns the reason why a namespaced policy may not use a URL, or nil if it may. A nil Permit permits all URLs.
	Permit func(*url.URL) error
	Now    func() time.Time // nil means the system clock
}

// Verifier implements world.Signatures. It is safe for concurrent use.
type Verifier struct {
	options Options
	images  images
	digests fetch.Group[string, v1.Hash]
	habits  fetch.Cache[string, int]
}

var _ world.Signatures = (*Verifier)(nil)

// New returns a Verifier.
func New(o Options) (*Verifier, error) {
	if o.Registry == nil || o.Keys == nil || o.Trust == nil {
		return nil, errors.New("signatures cannot be verified without registries, keys and trust")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.HTTP == nil {
		o.HTTP = http.DefaultTransport
	}
	return &Verifier{options: o, habits: fetch.Cache[string, int]{Now: o.Now, Entries: maxHabits}}, nil
}

// Verify implements world.Signatures.
func (v *Verifier) Verify(ctx context.Context, r world.SignatureRequest) (string, error) {
	if r.Attestor == nil {
		return "", errors.New("no attestor is given")
	}
	i, err := v.open(ctx, r)
	if err != nil {
		return "", err
	}
	_, err = v.verdict(ctx, i, r, func(ctx context.Context) ([]world.Statement, error) {
		if r.Format == Notary {
			return nil, v.notarySignature(ctx, i, i.descriptor, r)
		}
		return nil, v.signature(ctx, i, r)
	})
	v.addFindings(ctx, i, r)
	return i.digest.String(), err
}

// Statements implements world.Signatures.
func (v *Verifier) Statements(ctx context.Context, r world.SignatureRequest) (string, []world.Statement, error) {
	i, err := v.open(ctx, r)
	if err != nil {
		return "", nil, err
	}
	found, err := v.verdict(ctx, i, r, func(ctx context.Context) ([]world.Statement, error) {
		if r.Format == Notary {
			return v.notaryStatements(ctx, i, r)
		}
		return v.statements(ctx, i, r)
	})
	v.addFindings(ctx, i, r)
	return i.digest.String(), found, err
}

// addFindings adds the existing signatures to a request that asks for them. The result for the image is already decided.
func (v *Verifier) addFindings(ctx context.Context, i *image, r world.SignatureRequest) {
	if r.Findings != nil {
		*r.Findings, _ = v.findings(ctx, i, r) // the verification has already returned the error, or some findings are missing
	}
}

// verdict answers a query about an image once while the image is cached, because many Pods send the same query at the same time. It
// repeats queries that ended in an error.
func (v *Verifier) verdict(ctx context.Context, i *image, r world.SignatureRequest, ask func(context.Context) ([]world.Statement, error)) ([]world.Statement, error) {
	r.Image, r.For, r.Remembered = "", "", nil // these belong to i, or do not change the answer
	key, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	answer, err := i.verdicts.Get(ctx, string(key), func(ctx context.Context) (answer verdict, err error) {
		answer.statements, err = ask(ctx)
		if errors.As(err, &answer.unverified) {
			return answer, nil
		}
		return answer, err
	})
	if err != nil {
		v.images.drop(i) // the next query starts again, with the full number of requests for an image
	}
	if err == nil && answer.unverified != nil {
		return nil, answer.unverified
	}
	return answer.statements, err
}

type verdict struct {
	statements []world.Statement
	unverified *world.UnverifiedError
}

// unverified returns the error for content that was read and does not satisfy the attestor.
func unverified(format string, args ...any) error {
	return &world.UnverifiedError{Reason: fmt.Sprintf(format, args...)}
}

func isUnverified(err error) bool {
	var u *world.UnverifiedError
	return errors.As(err, &u)
}
