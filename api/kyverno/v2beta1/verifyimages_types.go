package v2beta1

import (
	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
)

// ImageVerification checks signatures and attestations of the images that it names.
type ImageVerification struct {
	// Enforce refuses requests that fail, Audit records them; the policy's action when empty.
	// +optional
	FailureAction *kyvernov1.FailureAction `json:"failureAction,omitempty"`
	// Kind of signature. Cosign when empty.
	// +optional
	Type kyvernov1.ImageVerificationType `json:"type,omitempty"`
	// Images that are checked; wildcards are allowed.
	// +optional
	ImageReferences []string `json:"imageReferences,omitempty"`
	// Images that are not; wildcards are allowed.
	// +optional
	SkipImageReferences []string `json:"skipImageReferences,omitempty"`
	// Who has to sign; every set has to be satisfied.
	// +optional
	Attestors []kyvernov1.AttestorSet `json:"attestors,omitempty"`
	// Statements about the image that have to be there.
	// +optional
	Attestations []kyvernov1.Attestation `json:"attestations,omitempty"`
	// Repository of the signatures; that of the image when empty.
	// +optional
	Repository string `json:"repository,omitempty"`
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
	ImageRegistryCredentials *kyvernov1.ImageRegistryCredentials `json:"imageRegistryCredentials,omitempty"`
	// Further conditions, evaluated when the images are verified.
	// +optional
	Validation *kyvernov1.ValidateImageVerification `json:"validate,omitempty"`
}
