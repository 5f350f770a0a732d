package v1

// ImageVerification verifies the signatures and attestations of the images that it selects.
type ImageVerification struct {
	// How a failure affects a request: Enforce denies it, Audit admits it and reports the failure. The default is the policy's
	// validationFailureAction.
	// +optional
	FailureAction *FailureAction `json:"failureAction,omitempty"`
	// Type of the signatures: Cosign, SigstoreBundle or Notary. The default is Cosign.
	// +optional
	Type ImageVerificationType `json:"type,omitempty"`
	// One image pattern (older form; use imageReferences).
	// +optional
	Image string `json:"image,omitempty"`
	// Images that are verified. Wildcards are allowed.
	// +optional
	ImageReferences []string `json:"imageReferences,omitempty"`
	// Images that are not verified although imageReferences selects them. Wildcards are allowed.
	// +optional
	SkipImageReferences []string `json:"skipImageReferences,omitempty"`
	// Public key (older form; use attestors).
	// +optional
	Key string `json:"key,omitempty"`
	// Root certificates (older form; use attestors).
	// +optional
	Roots string `json:"roots,omitempty"`
	// Identity of a keyless signer (older form; use attestors).
	// +optional
	Subject string `json:"subject,omitempty"`
	// Issuer of a keyless signer's identity (older form; use attestors).
	// +optional
	Issuer string `json:"issuer,omitempty"`
	// Extensions of a keyless signer's certificate (older form; use attestors).
	// +optional
	AdditionalExtensions map[string]string `json:"additionalExtensions,omitempty"`
	// Annotations of the signature (older form; use attestors).
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// The required signers. Every set must be satisfied.
	// +optional
	Attestors []AttestorSet `json:"attestors,omitempty"`
	// Signed statements about the image that must exist.
	// +optional
	Attestations []Attestation `json:"attestations,omitempty"`
	// Repository of the signatures. The default is the repository of the image.
	// +optional
	Repository string `json:"repository,omitempty"`
	// Whether signatures are looked up as OCI 1.1 referrers. The default is false.
	// +optional
	CosignOCI11 bool `json:"cosignOCI11,omitempty"`
	// Whether tags are replaced by digests at admission. The default is true.
	// +optional
	// +kubebuilder:default=true
	MutateDigest *bool `json:"mutateDigest,omitempty"`
	// Whether every image must have a digest. The default is true.
	// +optional
	// +kubebuilder:default=true
	VerifyDigest *bool `json:"verifyDigest,omitempty"`
	// Whether every image must have been verified. The default is true.
	// +optional
	// +kubebuilder:default=true
	Required *bool `json:"required,omitempty"`
	// Whether verified images are cached. The default is true.
	// +optional
	// +kubebuilder:default=true
	UseCache *bool `json:"useCache,omitempty"`
	// Credentials for the registry.
	// +optional
	ImageRegistryCredentials *ImageRegistryCredentials `json:"imageRegistryCredentials,omitempty"`
	// Conditions that are evaluated on the data of verified images.
	// +optional
	Validation *ValidateImageVerification `json:"validate,omitempty"`
}

// ImageVerificationType is a type of signatures.
//
// +kubebuilder:validation:Enum=Cosign;SigstoreBundle;Notary
type ImageVerificationType string

// ValidateImageVerification checks the data of verified images.
type ValidateImageVerification struct {
	// Message of a failure.
	// +optional
	Message string `json:"message,omitempty"`
	// Conditions that make the rule fail.
	// +optional
	Deny *Deny `json:"deny,omitempty"`
}

// AttestorSet is satisfied if count of its entries are, or all entries without a count.
type AttestorSet struct {
	// Number of entries that are sufficient. The default is all.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Count *int `json:"count,omitempty"`
	// The attestors.
	// +optional
	Entries []Attestor `json:"entries,omitempty"`
}

// Attestor is one of keys, certificates, keyless or a nested set.
type Attestor struct {
	// Public keys.
	// +optional
	Keys *StaticKeyAttestor `json:"keys,omitempty"`
	// Certificates.
	// +optional
	Certificates *CertificateAttestor `json:"certificates,omitempty"`
	// An identity in a certificate for keyless signing.
	// +optional
	Keyless *KeylessAttestor `json:"keyless,omitempty"`
	// A nested set.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Attestor *AttestorSet `json:"attestor,omitempty"`
	// Annotations that the signature must contain.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Repository of the signatures.
	// +optional
	Repository string `json:"repository,omitempty"`
	// Hash algorithm of the signature.
	// +optional
	// +kubebuilder:default=sha256
	SignatureAlgorithm string `json:"signatureAlgorithm,omitempty"`
}

// StaticKeyAttestor defines public keys, from one of several sources.
type StaticKeyAttestor struct {
	// Public keys in PEM, the URI of a key in a key management service, or k8s://⟨namespace⟩/⟨name⟩ of a Secret.
	// +optional
	PublicKeys string `json:"publicKeys,omitempty"`
	// Hash algorithm of the signature.
	// +optional
	// +kubebuilder:default=sha256
	SignatureAlgorithm string `json:"signatureAlgorithm,omitempty"`
	// URI of a key in a key management service.
	// +optional
	KMS string `json:"kms,omitempty"`
	// A Secret with the key.
	// +optional
	Secret *SecretReference `json:"secret,omitempty"`
	// The transparency log of signatures.
	// +optional
	Rekor *Rekor `json:"rekor,omitempty"`
	// The certificate transparency log.
	// +optional
	CTLog *CTLog `json:"ctlog,omitempty"`
}

// SecretReference is a reference to a Secret.
type SecretReference struct {
	// Name of the Secret.
	Name string `json:"name"`
	// Namespace of the Secret.
	Namespace string `json:"namespace"`
}

// CertificateAttestor defines a signer by a certificate.
type CertificateAttestor struct {
	// PEM certificate of the signer.
	// +optional
	Certificate string `json:"cert,omitempty"`
	// PEM certificates from the signer's issuer to the root.
	// +optional
	CertificateChain string `json:"certChain,omitempty"`
	// The transparency log of signatures.
	// +optional
	Rekor *Rekor `json:"rekor,omitempty"`
	// The certificate transparency log.
	// +optional
	CTLog *CTLog `json:"ctlog,omitempty"`
}

// KeylessAttestor defines a signer by the issuer and subject of an identity.
type KeylessAttestor struct {
	// Issuer of the identity.
	// +optional
	Issuer string `json:"issuer,omitempty"`
	// Regular expression for the issuer.
	// +optional
	IssuerRegExp string `json:"issuerRegExp,omitempty"`
	// The identity, such as an e-mail address.
	// +optional
	Subject string `json:"subject,omitempty"`
	// Regular expression for the identity.
	// +optional
	SubjectRegExp string `json:"subjectRegExp,omitempty"`
	// Root certificates in PEM. The default is the trusted root of sigstore.
	// +optional
	Roots string `json:"roots,omitempty"`
	// The transparency log of signatures.
	// +optional
	Rekor *Rekor `json:"rekor,omitempty"`
	// The certificate transparency log.
	// +optional
	CTLog *CTLog `json:"ctlog,omitempty"`
	// Extensions that the signer's certificate must contain, with their values.
	// +optional
	AdditionalExtensions map[string]string `json:"additionalExtensions,omitempty"`
}

// Rekor configures the transparency log of signatures.
type Rekor struct {
	// URL of the log.
	// +optional
	URL string `json:"url,omitempty"`
	// PEM public key of the log.
	// +optional
	RekorPubKey string `json:"pubkey,omitempty"`
	// Accepts signatures without an entry in the log. The default is false.
	// +optional
	IgnoreTlog bool `json:"ignoreTlog,omitempty"`
}

// CTLog configures the certificate transparency log.
type CTLog struct {
	// Accepts certificates without a signed timestamp of the log. The default is false.
	// +optional
	IgnoreSCT bool `json:"ignoreSCT,omitempty"`
	// PEM public key of the log.
	// +optional
	CTLogPubKey string `json:"pubkey,omitempty"`
	// PEM certificates of a timestamp authority.
	// +optional
	TSACertChain string `json:"tsaCertChain,omitempty"`
}

// Attestation is a signed statement about an image.
type Attestation struct {
	// Name of the variable with which conditions read the statement.
	// +optional
	Name string `json:"name,omitempty"`
	// Type of the statement.
	// +optional
	Type string `json:"type,omitempty"`
	// Type of the statement (older form; use type).
	// +optional
	PredicateType string `json:"predicateType,omitempty"`
	// The required signers of the statement.
	// +optional
	Attestors []AttestorSet `json:"attestors,omitempty"`
	// Conditions on the content of the statement. Every entry must be true.
	// +optional
	Conditions []AnyAllConditions `json:"conditions,omitempty"`
}
