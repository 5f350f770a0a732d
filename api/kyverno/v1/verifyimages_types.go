package v1

// ImageVerification checks signatures and attestations of the images that it names.
type ImageVerification struct {
	// Enforce refuses requests that fail, Audit records them; the policy's action when empty.
	// +optional
	FailureAction *FailureAction `json:"failureAction,omitempty"`
	// Kind of signature. Cosign when empty.
	// +optional
	Type ImageVerificationType `json:"type,omitempty"`
	// One image pattern (older form; use imageReferences).
	// +optional
	Image string `json:"image,omitempty"`
	// Images that are checked; wildcards are allowed.
	// +optional
	ImageReferences []string `json:"imageReferences,omitempty"`
	// Images that are not; wildcards are allowed.
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
	// Who has to sign; every set has to be satisfied.
	// +optional
	Attestors []AttestorSet `json:"attestors,omitempty"`
	// Statements about the image that have to be there.
	// +optional
	Attestations []Attestation `json:"attestations,omitempty"`
	// Repository of the signatures; that of the image when empty.
	// +optional
	Repository string `json:"repository,omitempty"`
	// Looks signatures up as OCI 1.1 referrers.
	// +optional
	CosignOCI11 bool `json:"cosignOCI11,omitempty"`
	// Replaces tags by digests.
	// +optional
	// +kubebuilder:default=true
	MutateDigest *bool `json:"mutateDigest,omitempty"`
	// Requires digests.
	// +optional
	// +kubebuilder:default=true
	VerifyDigest *bool `json:"verifyDigest,omitempty"`
	// Requires that the images are verified.
	// +optional
	// +kubebuilder:default=true
	Required *bool `json:"required,omitempty"`
	// Remembers verified images for some time.
	// +optional
	// +kubebuilder:default=true
	UseCache *bool `json:"useCache,omitempty"`
	// How to log in to the registry.
	// +optional
	ImageRegistryCredentials *ImageRegistryCredentials `json:"imageRegistryCredentials,omitempty"`
	// Further conditions, evaluated when the images are verified.
	// +optional
	Validation *ValidateImageVerification `json:"validate,omitempty"`
}

// ImageVerificationType is a kind of signature.
//
// +kubebuilder:validation:Enum=Cosign;SigstoreBundle;Notary
type ImageVerificationType string

// ValidateImageVerification checks the data of verified images.
type ValidateImageVerification struct {
	// Shown when the conditions deny.
	// +optional
	Message string `json:"message,omitempty"`
	// Conditions under which the rule fails.
	// +optional
	Deny *Deny `json:"deny,omitempty"`
}

// AttestorSet is satisfied by count of its entries, or by all of them without a count.
type AttestorSet struct {
	// How many entries suffice.
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
	// An identity that an issuer vouches for.
	// +optional
	Keyless *KeylessAttestor `json:"keyless,omitempty"`
	// A nested set.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Attestor *AttestorSet `json:"attestor,omitempty"`
	// Annotations that the signature must carry.
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

// StaticKeyAttestor names public keys, in one of several places.
type StaticKeyAttestor struct {
	// PEM keys, a file, a KMS URI, or k8s://namespace/name.
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
	// The transparency log.
	// +optional
	Rekor *Rekor `json:"rekor,omitempty"`
	// The certificate transparency log.
	// +optional
	CTLog *CTLog `json:"ctlog,omitempty"`
}

// SecretReference names a Secret.
type SecretReference struct {
	// Name of the Secret.
	Name string `json:"name"`
	// Namespace of the Secret.
	Namespace string `json:"namespace"`
}

// CertificateAttestor names certificates.
type CertificateAttestor struct {
	// PEM certificate of the signer.
	// +optional
	Certificate string `json:"cert,omitempty"`
	// PEM certificates from the signer's issuer to the root.
	// +optional
	CertificateChain string `json:"certChain,omitempty"`
	// The transparency log.
	// +optional
	Rekor *Rekor `json:"rekor,omitempty"`
	// The certificate transparency log.
	// +optional
	CTLog *CTLog `json:"ctlog,omitempty"`
}

// KeylessAttestor names an identity by its issuer and subject.
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
	// PEM root certificates; the public ones when empty.
	// +optional
	Roots string `json:"roots,omitempty"`
	// The transparency log.
	// +optional
	Rekor *Rekor `json:"rekor,omitempty"`
	// The certificate transparency log.
	// +optional
	CTLog *CTLog `json:"ctlog,omitempty"`
	// Extensions that the signer's certificate must carry.
	// +optional
	AdditionalExtensions map[string]string `json:"additionalExtensions,omitempty"`
}

// Rekor is a transparency log.
type Rekor struct {
	// Address of the log.
	// +optional
	URL string `json:"url,omitempty"`
	// PEM public key of the log.
	// +optional
	RekorPubKey string `json:"pubkey,omitempty"`
	// Does without an entry in the log.
	// +optional
	IgnoreTlog bool `json:"ignoreTlog,omitempty"`
}

// CTLog is a certificate transparency log.
type CTLog struct {
	// Does without a signed timestamp of the log.
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
	// Name under which conditions read the statement.
	// +optional
	Name string `json:"name,omitempty"`
	// Type of the statement.
	// +optional
	Type string `json:"type,omitempty"`
	// Type of the statement (older form; use type).
	// +optional
	PredicateType string `json:"predicateType,omitempty"`
	// Who has to sign the statement.
	// +optional
	Attestors []AttestorSet `json:"attestors,omitempty"`
	// Conditions on the statement's content; every entry has to hold.
	// +optional
	Conditions []AnyAllConditions `json:"conditions,omitempty"`
}
