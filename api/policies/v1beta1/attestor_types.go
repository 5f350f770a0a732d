package v1beta1

import corev1 "k8s.io/api/core/v1"

// Credentials configures the access to image registries.
type Credentials struct {
	// Allows registries without TLS, and those whose certificate is not trusted. The default is false.
	// +optional
	AllowInsecureRegistry bool `json:"allowInsecureRegistry,omitempty"`
	// Providers of registry credentials: default, amazon, azure, google, github. The identity of the controller is used.
	// +optional
	// +kubebuilder:validation:items:Enum=default;amazon;azure;google;github
	Providers []string `json:"providers,omitempty"`
	// Names of pull secrets. They are read from the namespace of the installation; those of a namespaced policy from the policy's
	// namespace.
	// +optional
	Secrets []string `json:"secrets,omitempty"`
}

// Attestor is a signer of images and attestations. Exactly one of cosign and notary is set.
//
// +ephor:exactlyOneOf=cosign;notary
type Attestor struct {
	// Name of the attestor. Expressions refer to it as attestors.⟨name⟩.
	Name string `json:"name"`
	// Verifies signatures in the format of Cosign (sigstore).
	// +optional
	Cosign *Cosign `json:"cosign,omitempty"`
	// Verifies signatures in the format of the Notary Project.
	// +optional
	Notary *Notary `json:"notary,omitempty"`
}

// Cosign defines the signer of sigstore signatures, and the evidence that a signature needs.
type Cosign struct {
	// The signer's public key.
	// +optional
	Key *Key `json:"key,omitempty"`
	// The identities of the signer, as certificates for keyless signing contain them.
	// +optional
	Keyless *Keyless `json:"keyless,omitempty"`
	// The signer's certificate.
	// +optional
	Certificate *Certificate `json:"certificate,omitempty"`
	// Where signatures are stored. The default is the repository of the image.
	// +optional
	Source *Source `json:"source,omitempty"`
	// The transparency logs and the timestamp authority that prove when a signature was made.
	// +optional
	CTLog *CTLog `json:"ctlog,omitempty"`
	// The TUF repository that provides the trusted root. The default is the public repository of sigstore.
	// +optional
	TUF *TUF `json:"tuf,omitempty"`
	// Annotations that a signature must contain, with exactly these values.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// A trusted root of sigstore in JSON. It is used instead of a TUF repository.
	// +optional
	TrustedRoot *StringOrExpression `json:"trustedRoot,omitempty"`
}

// Key is a public key, from one of three sources.
type Key struct {
	// One or several public keys in PEM.
	// +optional
	Data string `json:"data,omitempty"`
	// URI of a public key in a key management service, such as awskms:///alias/⟨name⟩. It is used if data is empty.
	// +optional
	KMS string `json:"kms,omitempty"`
	// Hash algorithm of the signature: sha224, sha256, sha384 or sha512. The default is sha256.
	// +optional
	HashAlgorithm string `json:"hashAlgorithm,omitempty"`
	// A CEL expression whose value is the public key in PEM.
	// +optional
	Expression string `json:"expression,omitempty"`
}

// Keyless defines the identities of signers without long-lived keys.
type Keyless struct {
	// The accepted identities. One matching identity is sufficient.
	Identities []Identity `json:"identities"`
	// Root certificates in PEM that issue the signers' certificates. The default is the trusted root of sigstore.
	// +optional
	Roots string `json:"roots,omitempty"`
	// Extensions that the signer's certificate must contain, by object identifier or name, with their values.
	// +optional
	AdditionalExtensions map[string]string `json:"additionalExtensions,omitempty"`
}

// Identity is the issuer and the subject of a certificate for keyless signing.
type Identity struct {
	// Issuer of the signer's identity, such as the URL of an OIDC provider.
	// +optional
	Issuer string `json:"issuer,omitempty"`
	// Subject of the certificate, such as an email address or the URI of a workflow.
	// +optional
	Subject string `json:"subject,omitempty"`
	// A regular expression that the issuer must match.
	// +optional
	IssuerRegExp string `json:"issuerRegExp,omitempty"`
	// A regular expression that the subject must match.
	// +optional
	SubjectRegExp string `json:"subjectRegExp,omitempty"`
	// A CEL expression whose value is the subject.
	// +optional
	SubjectExpression string `json:"subjectExpression,omitempty"`
}

// Certificate is the signer's certificate, with its chain.
type Certificate struct {
	// The signer's certificate in PEM.
	// +optional
	Certificate *StringOrExpression `json:"cert,omitempty"`
	// The chain of issuers in PEM.
	// +optional
	CertificateChain *StringOrExpression `json:"certChain,omitempty"`
}

// StringOrExpression is a literal text, or a CEL expression whose value is the text.
//
// +ephor:exactlyOneOf=value;expression
type StringOrExpression struct {
	// The literal text.
	// +optional
	Value string `json:"value,omitempty"`
	// A CEL expression whose value is the text.
	// +optional
	Expression string `json:"expression,omitempty"`
}

// Source defines where signatures are stored.
type Source struct {
	// Repository with the signatures, such as registry.example.com/signatures.
	// +optional
	Repository string `json:"repository,omitempty"`
	// Pull secrets for the repository, in the namespace of the installation.
	// +optional
	SignaturePullSecrets []corev1.LocalObjectReference `json:"PullSecrets,omitempty"` //nolint:tagliatelle // the name in the API
	// Prefix of the tags under which signatures are stored.
	// +optional
	TagPrefix string `json:"tagPrefix,omitempty"`
}

// CTLog configures the transparency logs and the timestamp authority that prove a signature.
type CTLog struct {
	// URL of the Rekor transparency log. The default is the public log of sigstore.
	// +optional
	URL string `json:"url,omitempty"`
	// Public key of the Rekor log in PEM. The default comes from the trusted root.
	// +optional
	RekorPubKey string `json:"rekorPubKey,omitempty"`
	// Public key of the certificate transparency log in PEM. The default comes from the trusted root.
	// +optional
	CTLogPubKey string `json:"ctLogPubKey,omitempty"`
	// Certificates of the timestamp authority in PEM. If set, every signature needs a timestamp of this authority.
	// +optional
	TSACertChain string `json:"tsaCertChain,omitempty"`
	// Accepts signatures without an entry in the Rekor log. The default is false.
	// +optional
	InsecureIgnoreTlog bool `json:"insecureIgnoreTlog,omitempty"`
	// Accepts certificates without a proof that they are in the certificate transparency log. The default is false.
	// +optional
	InsecureIgnoreSCT bool `json:"insecureIgnoreSCT,omitempty"`
}

// TUF configures the TUF repository that provides the trusted root.
type TUF struct {
	// The initial root of trust of the repository.
	// +optional
	Root TUFRoot `json:"root,omitempty,omitzero"`
	// URL of the repository.
	// +optional
	Mirror string `json:"mirror,omitempty"`
}

// TUFRoot is the initial root.json of a TUF repository, by its location or its content.
type TUFRoot struct {
	// Path or URL of root.json.
	// +optional
	Path string `json:"path,omitempty"`
	// Content of root.json.
	// +optional
	Data string `json:"data,omitempty"`
}

// Notary defines the signer of Notary Project signatures.
type Notary struct {
	// Trusted certificates in PEM. A signature is accepted if its certificate is one of them, or is issued by one of them.
	// +optional
	Certs *StringOrExpression `json:"certs,omitempty"`
	// Certificates of the timestamp authority in PEM. If set, every signature needs a timestamp of this authority.
	// +optional
	TSACerts *StringOrExpression `json:"tsaCerts,omitempty"`
}

// Attestation is a type of signed statements about an image. Exactly one of intoto and referrer is set.
type Attestation struct {
	// Name of the attestation. Expressions refer to it as attestations.⟨name⟩.
	Name string `json:"name"`
	// An in-toto statement, which Cosign signs and stores.
	// +optional
	InToto *InToto `json:"intoto,omitempty"`
	// An artifact in the registry that refers to the image (OCI referrers).
	// +optional
	Referrer *Referrer `json:"referrer,omitempty"`
}

// InToto selects in-toto statements by their predicate type.
type InToto struct {
	// Predicate type of the statement, such as https://slsa.dev/provenance/v1.
	Type string `json:"type"`
}

// Referrer selects artifacts that refer to the image by their artifact type.
type Referrer struct {
	// Artifact type, such as application/vnd.cyclonedx+json.
	Type string `json:"type"`
}
