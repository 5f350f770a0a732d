package world

import (
	"context"
	"strings"

	"ephor.invalid/ephor/internal/trace"
	"ephor.invalid/ephor/internal/value"
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
	Confined   bool // the request is for a namespaced policy. Within sets it.
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
	// Confined: a namespaced policy defines it. Within sets it.
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

// Within implements Request. A Reach of one namespace allows only the pull secrets and the keys in it, which it also assumes for those
// without a namespace; its requests are marked as confined.
func (r SignatureRequest) Within(reach Reach) (_ Request, err error) {
	if r.Registry, err = reach.confineImage(r.Registry); err != nil {
		return r, err
	}
	r.Attestor, err = reach.confineAttestor(r.Attestor)
	return r, err
}

// Title implements Request.
func (r SignatureRequest) Title() string { return strings.TrimPrefix(r.Type+" "+r.Image, " ") }

// Key implements Request. It leaves out the fields that only change how the answer is found.
func (r SignatureRequest) Key() Key {
	r.For, r.Remembered, r.Findings = "", nil, nil
	return Key{Asked: value.JSON(r)}
}

// Within implements Request.
func (r BlobRequest) Within(reach Reach) (_ Request, err error) {
	r.Confined = true
	r.Attestor, err = reach.confineAttestor(r.Attestor)
	return r, err
}

// Title implements Request.
func (r BlobRequest) Title() string { return "of a manifest" }

// Key implements Request.
func (r BlobRequest) Key() Key { return Key{Asked: "[]", Hidden: []string{value.JSON(r)}} }

// signatures are Signatures as Lookups.
type signatures struct {
	verify, statements Lookup[SignatureRequest, verified]
	blob               Lookup[BlobRequest, string]
}

// verified is an answer of Signatures about an image.
type verified struct {
	digest     string
	statements []Statement
	remembered bool
}

// Verify implements Signatures.
func (s signatures) Verify(ctx context.Context, r SignatureRequest) (string, error) {
	v, err := s.verify(ctx, r)
	v.tell(r)
	return v.digest, err
}

// Statements implements Signatures.
func (s signatures) Statements(ctx context.Context, r SignatureRequest) (string, []Statement, error) {
	v, err := s.statements(ctx, r)
	v.tell(r)
	return v.digest, v.statements, err
}

// Blob implements Signatures.
func (s signatures) Blob(ctx context.Context, r BlobRequest) (string, error) { return s.blob(ctx, r) }

// tell reports to the caller that the answer came from memory.
func (v *verified) tell(r SignatureRequest) {
	if r.Remembered != nil && v.remembered {
		*r.Remembered = true
	}
}

func passSignatures(d door, next Signatures) Signatures {
	var s signatures
	if next != nil {
		s.verify = func(ctx context.Context, r SignatureRequest) (v verified, err error) {
			v.digest, err = next.Verify(ctx, r)
			v.remembered = r.Remembered != nil && *r.Remembered
			return v, err
		}
		s.statements = func(ctx context.Context, r SignatureRequest) (v verified, err error) {
			v.digest, v.statements, err = next.Statements(ctx, r)
			v.remembered = r.Remembered != nil && *r.Remembered
			return v, err
		}
		s.blob = next.Blob
	}
	pass(d, "Signatures", "verify", "SIGNATURE ", &s.verify)
	pass(d, "Signatures", "statements", "ATTESTATION ", &s.statements)
	if pass(d, "Signatures", "blob", "SIGNATURE ", &s.blob); s.blob == nil {
		return nil
	}
	return s
}

// JSON returns the answer as a JSON value, with the numbers of its statements as they are.
func (v verified) JSON() any {
	list := make([]any, len(v.statements))
	for i, s := range v.statements {
		list[i] = map[string]any{"type": s.Type, "predicate": s.Predicate, "document": s.Document}
	}
	return map[string]any{"digest": v.digest, "remembered": v.remembered, "statements": list}
}

// FromJSON reads what JSON returned; false if it has another form.
func (v *verified) FromJSON(from any) bool {
	m, ok := from.(map[string]any)
	list, isList := m["statements"].([]any)
	if !ok || !isList {
		return false
	}
	v.digest, _ = m["digest"].(string)
	v.remembered, _ = m["remembered"].(bool)
	for _, item := range list {
		s, ok := item.(map[string]any)
		if !ok {
			return false
		}
		kind, _ := s["type"].(string)
		v.statements = append(v.statements, Statement{Type: kind, Predicate: s["predicate"], Document: s["document"]})
	}
	return true
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
