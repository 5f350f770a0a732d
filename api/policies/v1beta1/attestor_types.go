package v1beta1

import corev1 "k8s.io/api/core/v1"

// Credentials say how registries are read.
type Credentials struct {
	// Allows registries without TLS or with a certificate that is not trusted.
	// +optional
	AllowInsecureRegistry bool `json:"allowInsecureRegistry,omitempty"`
	// Sources of credentials.
	// +optional
	// +kubebuilder:validation:items:Enum=default;amazon;azure;google;github
	Providers []string `json:"providers,omitempty"`
	// Pull secrets in the engine's namespace.
	// +optional
	Secrets []string `json:"secrets,omitempty"`
}

// Attestor is an authority that signs images and statements.
//
// +ephor:exactlyOneOf=cosign;notary
type Attestor struct {
	// The name under which expressions read the attestor: attestors.⟨name⟩.
	Name string `json:"name"`
	// An authority of Cosign.
	// +optional
	Cosign *Cosign `json:"cosign,omitempty"`
	// An authority of Notary.
	// +optional
	Notary *Notary `json:"notary,omitempty"`
}

// Cosign says whose signatures count, and what their proofs are.
type Cosign struct {
	// A public key.
	// +optional
	Key *Key `json:"key,omitempty"`
	// Identities that a certificate authority vouches for.
	// +optional
	Keyless *Keyless `json:"keyless,omitempty"`
	// A certificate.
	// +optional
	Certificate *Certificate `json:"certificate,omitempty"`
	// Where signatures are stored, if not beside the image.
	// +optional
	Source *Source `json:"source,omitempty"`
	// The transparency logs.
	// +optional
	CTLog *CTLog `json:"ctlog,omitempty"`
	// Where trusted roots are updated from.
	// +optional
	TUF *TUF `json:"tuf,omitempty"`
	// Annotations that a signature must have.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// The trusted root in JSON; it replaces updates.
	// +optional
	TrustedRoot *StringOrExpression `json:"trustedRoot,omitempty"`
}

// Key is a public key.
type Key struct {
	// In PEM, one or several.
	// +optional
	Data string `json:"data,omitempty"`
	// In a key management service.
	// +optional
	KMS string `json:"kms,omitempty"`
	// The hash of the signature: sha224, sha256 (the default), sha384, sha512.
	// +optional
	HashAlgorithm string `json:"hashAlgorithm,omitempty"`
	// Gives the key in PEM.
	// +optional
	Expression string `json:"expression,omitempty"`
}

// Keyless names identities.
type Keyless struct {
	// Who may sign.
	Identities []Identity `json:"identities"`
	// The roots of certificates, in PEM.
	// +optional
	Roots string `json:"roots,omitempty"`
	// Extensions that the certificate must have.
	// +optional
	AdditionalExtensions map[string]string `json:"additionalExtensions,omitempty"`
}

// Identity is an issuer and a subject.
type Identity struct {
	// The issuer.
	// +optional
	Issuer string `json:"issuer,omitempty"`
	// The subject.
	// +optional
	Subject string `json:"subject,omitempty"`
	// A regular expression for the issuer.
	// +optional
	IssuerRegExp string `json:"issuerRegExp,omitempty"`
	// A regular expression for the subject.
	// +optional
	SubjectRegExp string `json:"subjectRegExp,omitempty"`
	// Gives the subject.
	// +optional
	SubjectExpression string `json:"subjectExpression,omitempty"`
}

// Certificate is a certificate with its chain.
type Certificate struct {
	// The certificate, in PEM.
	// +optional
	Certificate *StringOrExpression `json:"cert,omitempty"`
	// The chain, in PEM.
	// +optional
	CertificateChain *StringOrExpression `json:"certChain,omitempty"`
}

// StringOrExpression is a text, or an expression that gives one.
//
// +ephor:exactlyOneOf=value;expression
type StringOrExpression struct {
	// The text.
	// +optional
	Value string `json:"value,omitempty"`
	// The expression.
	// +optional
	Expression string `json:"expression,omitempty"`
}

// Source is where signatures are stored.
type Source struct {
	// Repository of the signatures.
	// +optional
	Repository string `json:"repository,omitempty"`
	// Pull secrets for the repository, in the engine's namespace.
	// +optional
	SignaturePullSecrets []corev1.LocalObjectReference `json:"PullSecrets,omitempty"` //nolint:tagliatelle // the name in the API
	// Prefix of the tags of signatures.
	// +optional
	TagPrefix string `json:"tagPrefix,omitempty"`
}

// CTLog says which transparency logs prove a signature.
type CTLog struct {
	// Address of Rekor.
	// +optional
	URL string `json:"url,omitempty"`
	// Public key of Rekor, in PEM.
	// +optional
	RekorPubKey string `json:"rekorPubKey,omitempty"`
	// Public key of the log of certificates, in PEM.
	// +optional
	CTLogPubKey string `json:"ctLogPubKey,omitempty"`
	// Certificates of the time stamp authority, in PEM.
	// +optional
	TSACertChain string `json:"tsaCertChain,omitempty"`
	// Whether an entry in the log is not necessary.
	// +optional
	InsecureIgnoreTlog bool `json:"insecureIgnoreTlog,omitempty"`
	// Whether the proof that the certificate is in a log is not necessary.
	// +optional
	InsecureIgnoreSCT bool `json:"insecureIgnoreSCT,omitempty"`
}

// TUF says where trusted roots are updated from.
type TUF struct {
	// The first root.
	// +optional
	Root TUFRoot `json:"root,omitempty,omitzero"`
	// Address of the repository.
	// +optional
	Mirror string `json:"mirror,omitempty"`
}

// TUFRoot is the first root of a repository.
type TUFRoot struct {
	// Path or address of the file.
	// +optional
	Path string `json:"path,omitempty"`
	// Content of the file.
	// +optional
	Data string `json:"data,omitempty"`
}

// Notary says whose signatures count.
type Notary struct {
	// Certificates, in PEM.
	// +optional
	Certs *StringOrExpression `json:"certs,omitempty"`
	// Certificates of the time stamp authority, in PEM.
	// +optional
	TSACerts *StringOrExpression `json:"tsaCerts,omitempty"`
}

// Attestation is a kind of statement about an image.
type Attestation struct {
	// The name under which expressions read the attestation: attestations.⟨name⟩.
	Name string `json:"name"`
	// A statement in the in-toto format.
	// +optional
	InToto *InToto `json:"intoto,omitempty"`
	// A statement that refers to the image in its registry.
	// +optional
	Referrer *Referrer `json:"referrer,omitempty"`
}

// InToto is a statement in the in-toto format.
type InToto struct {
	// The predicate type.
	Type string `json:"type"`
}

// Referrer is a statement that refers to an image.
type Referrer struct {
	// The artifact type.
	Type string `json:"type"`
}
