package world

import (
	"context"
	"strings"

	"ephor.invalid/ephor/internal/trace"
)

// Signatures verifies signatures and attestations of images, with data from registries and transparency logs.
type Signatures interface {
	// Verify checks that the attestor signed the image and returns the digest of the signed image. The error is an *UnverifiedError if the
	// signatures were read and do not satisfy the attestor; any other error means that the check was inconclusive.
	Verify(ctx context.Context, r SignatureRequest) (digest string, err error)
	// Statements returns the statements of type r.Type about the image that the attestor signed, with the digest of the image. If there
	// are none, the list is empty. Errors are those of Verify.
	Statements(ctx context.Context, r SignatureRequest) (digest string, statements []Statement, err error)
	// Blob checks that the attestor signed a text that is not an image, and returns the signer: the fingerprint of a key, or the subject
	// of a certificate. Errors are those of Verify.
	Blob(ctx context.Context, r BlobRequest) (signer string, err error)
}

// BlobRequest is a request to verify who signed a text.
type BlobRequest struct {
	Content    []byte
	Signatures []BlobSignature // one of them must satisfy the attestor
	Attestor   *Attestor
	Confined   bool // the request is for a namespaced policy. ConfineSignatures sets it.
}

// BlobSignature is a signature of a text.
type BlobSignature struct {
	Signature   []byte
	Certificate string // PEM certificates of the signer and its authorities. Empty for a bare key.
	LogEntry    []byte // in the form of cosign, as JSON; empty for none
}

// SignatureRequest is a request to verify who signed an image.
type SignatureRequest struct {
	Image    string    // with registry, and with tag or digest
	Format   string    // Cosign, SigstoreBundle or Notary
	Attestor *Attestor // nil: signatures are not required; only for statements
	Type     string    // type of the statements; empty in Verify
	// Repository holds the signatures; empty for the image's repository.
	Repository string
	TagPrefix  string // prefix of the tags of signatures; empty for none
	Referrers  bool   // signatures are looked up as OCI 1.1 referrers
	// For identifies the requester for whom the answer may be remembered: a policy, its version, and a part of it. Empty: the answer is
	// not remembered. Remembered is set to whether the answer came from memory; nil if that does not matter.
	For        string
	Remembered *bool
	// Findings receives every signature that is found, for people; nil for none. If it is set, answers do not come from memory.
	Findings *[]trace.Signature `json:"-"`
	// Registry holds the credentials; its Reference is empty. If it is confined, so is everything else that the verification reads: the
	// repository of the signatures, transparency logs and key services.
	Registry ImageRequest
}

// Attestor is a signer whose signature is required: exactly one of Key, Certificate and Keyless is set.
type Attestor struct {
	Key         *KeyAttestor
	Certificate *CertificateAttestor
	Keyless     *KeylessAttestor
	Annotations map[string]string // with wildcards; the annotations that the signature must have
	Algorithm   string            // sha224, sha256, sha384 or sha512
	Rekor       Rekor
	CTLog       CTLog
	Trust       Trust
}

// Trust defines the source of the keys of logs and authorities that an attestor does not contain; the zero Trust is the public one.
type Trust struct {
	TrustedRoot string // in JSON; it replaces updates
	// Mirror is the address of a repository of updates; RootPath and RootData are its first root.
	Mirror, RootPath, RootData string
	// Confined: a namespaced policy defines it. ConfineSignatures sets it.
	Confined bool
}

// KeyAttestor is a public key: exactly one of the fields is set, apart from the two of a Secret.
type KeyAttestor struct {
	PublicKey                   string // PEM, one block
	KMS                         string // URI
	SecretNamespace, SecretName string
}

// Named returns the key with the Secret in its own fields, even if it was given as a text: k8s://⟨namespace⟩/⟨name⟩.
func (k KeyAttestor) Named() KeyAttestor {
	for _, text := range []*string{&k.PublicKey, &k.KMS} {
		if place, named := strings.CutPrefix(strings.TrimSpace(*text), "k8s://"); named {
			k.SecretNamespace, k.SecretName, _ = strings.Cut(place, "/")
			*text = ""
		}
	}
	return k
}

// CertificateAttestor is a certificate, or all certificates that a chain vouches for; PEM.
type CertificateAttestor struct{ Certificate, Chain string }

// KeylessAttestor is an identity that an issuer vouches for. Subject and Issuer are wildcards.
type KeylessAttestor struct {
	Issuer, IssuerRegExp, Subject, SubjectRegExp string
	Roots                                        string // PEM; empty for the public ones
	Extensions                                   map[string]string
	Others                                       []Identity // identities that satisfy as well
}

// Identity is an identity that an issuer vouches for, in the form of KeylessAttestor.
type Identity struct{ Issuer, IssuerRegExp, Subject, SubjectRegExp string }

// Rekor is a transparency log.
type Rekor struct {
	URL, PublicKey string
	Ignore         bool // no entry is required
}

// CTLog is a certificate transparency log.
type CTLog struct {
	PublicKey, TSACertChain string
	Ignore                  bool // no signed timestamp is required
}

// Statement is an attested statement.
type Statement struct {
	Type      string
	Predicate any // JSON value
	// Document is the whole statement, or the referrer of the image, as a JSON value.
	Document any
}

// UnverifiedError is the error if signatures could be read and do not satisfy the attestor.
type UnverifiedError struct{ Reason string }

func (e *UnverifiedError) Error() string { return e.Reason }

// ConfineSignatures limits Signatures to a Reach; nil stays nil. A Reach of one namespace allows only the pull secrets and the keys in it,
// which it also assumes for those without a namespace; its requests are marked as confined. Every implementation of Root must pass its
// Signatures through it.
func ConfineSignatures(r Reach, next Signatures) Signatures {
	if next == nil || r.cluster {
		return next
	}
	return confinedSignatures{r, next}
}

type confinedSignatures struct {
	reach Reach
	next  Signatures
}

// Verify implements Signatures.
func (c confinedSignatures) Verify(ctx context.Context, req SignatureRequest) (string, error) {
	req, err := c.confine(req)
	if err != nil {
		return "", err
	}
	return c.next.Verify(ctx, req)
}

// Statements implements Signatures.
func (c confinedSignatures) Statements(ctx context.Context, req SignatureRequest) (string, []Statement, error) {
	req, err := c.confine(req)
	if err != nil {
		return "", nil, err
	}
	return c.next.Statements(ctx, req)
}

func (c confinedSignatures) confine(req SignatureRequest) (out SignatureRequest, err error) {
	if req.Registry, err = c.reach.confineImage(req.Registry); err != nil {
		return req, err
	}
	req.Attestor, err = c.reach.confineAttestor(req.Attestor)
	return req, err
}

// Blob implements Signatures.
func (c confinedSignatures) Blob(ctx context.Context, req BlobRequest) (_ string, err error) {
	if req.Attestor, err = c.reach.confineAttestor(req.Attestor); err != nil {
		return "", err
	}
	req.Confined = true
	return c.next.Blob(ctx, req)
}

// confineAttestor returns the attestor with its Secret in the namespace of the reach. The error is for a Secret in another namespace.
func (r Reach) confineAttestor(of *Attestor) (*Attestor, error) {
	if of == nil {
		return nil, nil
	}
	attestor := *of // the original belongs to the policy
	attestor.Trust.Confined = true
	if attestor.Key == nil {
		return &attestor, nil
	}
	key := attestor.Key.Named()
	if key.SecretName == "" {
		return &attestor, nil
	}
	if key.SecretNamespace == "" {
		key.SecretNamespace = r.namespace
	}
	if !r.Allows(key.SecretNamespace) {
		return nil, &PathError{Path: "the secret " + key.SecretNamespace + "/" + key.SecretName + " of a key", Namespace: r.namespace}
	}
	attestor.Key = &key
	return &attestor, nil
}
