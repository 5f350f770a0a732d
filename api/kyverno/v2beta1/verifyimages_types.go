package v2beta1

import (
	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// ImageVerification verifies the signatures and attestations of the images that it selects.
type ImageVerification struct {
	// How a failure affects a request: Enforce denies it, Audit admits it and reports the failure. The default is the policy's
	// validationFailureAction.
	// +optional
	FailureAction *kyvernov1.FailureAction `json:"failureAction,omitempty"`
	// Type of the signatures: Cosign, SigstoreBundle or Notary. The default is Cosign.
	// +optional
	Type kyvernov1.ImageVerificationType `json:"type,omitempty"`
	// Images that are verified. Wildcards are allowed.
	// +optional
	ImageReferences []string `json:"imageReferences,omitempty"`
	// Images that are not verified although imageReferences selects them. Wildcards are allowed.
	// +optional
	SkipImageReferences []string `json:"skipImageReferences,omitempty"`
	// The required signers. Every set must be satisfied.
	// +optional
	Attestors []kyvernov1.AttestorSet `json:"attestors,omitempty"`
	// Signed statements about the image that must exist.
	// +optional
	Attestations []kyvernov1.Attestation `json:"attestations,omitempty"`
	// Repository of the signatures. The default is the repository of the image.
	// +optional
	Repository string `json:"repository,omitempty"`
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
	ImageRegistryCredentials *kyvernov1.ImageRegistryCredentials `json:"imageRegistryCredentials,omitempty"`
	// Conditions that are evaluated on the data of verified images.
	// +optional
	Validation *kyvernov1.ValidateImageVerification `json:"validate,omitempty"`
}
