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

	"github.com/ephor-dev/ephor/internal/registry"
	"github.com/ephor-dev/ephor/internal/world"
)

// Formats of signatures, as policies name them.
const (
	Cosign = "Cosign"
	Bundle = "SigstoreBundle"
	Notary = "Notary"
)

// Keys finds public keys.
type Keys interface {
	// Key returns the key that k names. With confined it may ask only what a namespaced policy may.
	Key(ctx context.Context, k *world.KeyAttestor, confined bool) (crypto.PublicKey, error)
}

// Trust knows the keys and certificates of Sigstore's services.
type Trust interface {
	// Material is the last good material; it asks the network only when none is known.
	Material(ctx context.Context, t world.Trust) (root.TrustedMaterial, error)
}

// NotaryVerifier verifies signatures of Notary.
type NotaryVerifier interface {
	// Signature verifies one signature of the artefact. The error is an *world.UnverifiedError when it does not satisfy.
	Signature(ctx context.Context, a NotaryArtefact, certs world.CertificateAttestor, tsa string) error
	// Signer is the subject and the issuer that the certificate in an envelope names. It proves nothing.
	Signer(mediaType string, envelope []byte) (subject, issuer string)
}

// NotaryArtefact is a signature of Notary with what it signs.
type NotaryArtefact struct {
	Repository string
	Subject    v1.Descriptor
	MediaType  string
	Envelope   []byte
	Confined   bool // a namespaced policy asks
}

// Options say what a Verifier asks.
type Options struct {
	Registry *registry.Client
	Keys     Keys
	Trust    Trust
	Notary   NotaryVerifier    // nil: Notary's signatures are not verified, which is an error
	HTTP     http.RoundTripper // asks transparency logs; nil for the machine's way
	// Permit says why a namespaced policy may not ask for a URL, nil when it may; a nil Permit permits all.
	Permit func(*url.URL) error
	Now    func() time.Time // nil for the machine's clock
}

// Verifier implements world.Signatures. It is safe for all goroutines.
type Verifier struct {
	options Options
	images  images
	digests group[v1.Hash]
	habits  habits
}

var _ world.Signatures = (*Verifier)(nil)

// New makes a Verifier.
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
	return &Verifier{options: o}, nil
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
	v.note(ctx, i, r)
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
	v.note(ctx, i, r)
	return i.digest.String(), found, err
}

// note gives the signatures that there are to a request that asks for them. What became of the image is decided before.
func (v *Verifier) note(ctx context.Context, i *image, r world.SignatureRequest) {
	if r.Findings != nil {
		*r.Findings, _ = v.findings(ctx, i, r) // an error is that of the verification, or leaves some out
	}
}

// verdict evaluates a question about an image once, as long as the image is kept: many Pods ask the same at the same time. What could
// not be found out is asked again.
func (v *Verifier) verdict(ctx context.Context, i *image, r world.SignatureRequest, ask func(context.Context) ([]world.Statement, error)) ([]world.Statement, error) {
	r.Image, r.For, r.Remembered = "", "", nil // it is that of i, and the same for all who ask
	key, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	answer, err := i.verdicts.get(ctx, string(key), func(ctx context.Context) (answer verdict, err error) {
		answer.statements, err = ask(ctx)
		if errors.As(err, &answer.unverified) {
			return answer, nil
		}
		return answer, err
	})
	if err != nil {
		v.images.drop(i) // the next one begins anew, with all requests that one image may take
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

// unverified is the error for what was read and does not satisfy.
func unverified(format string, args ...any) error {
	return &world.UnverifiedError{Reason: fmt.Sprintf(format, args...)}
}

func isUnverified(err error) bool {
	var u *world.UnverifiedError
	return errors.As(err, &u)
}
