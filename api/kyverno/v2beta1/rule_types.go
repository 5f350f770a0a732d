package v2beta1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
)

// Rule is one statement of a policy: which resources it is about, and one of mutate, validate, generate or
// verifyImages.
type Rule struct {
	// Unique within the policy.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// Values that the rule's expressions may use, read in this order and only when needed.
	// +optional
	Context []kyvernov1.ContextEntry `json:"context,omitempty"`

	// Extra properties of the rule's results in reports. The values may hold variables.
	// +optional
	ReportProperties map[string]string `json:"reportProperties,omitempty"`

	// Which requests and resources the rule is about.
	MatchResources MatchResources `json:"match"`

	// Which of the matched ones it is not about.
	// +optional
	ExcludeResources *MatchResources `json:"exclude,omitempty"`

	// Where custom resources keep their image references, by kind.
	// +optional
	ImageExtractors kyvernov1.ImageExtractorConfigs `json:"imageExtractors,omitempty"`

	// Conditions under which the rule applies.
	// +optional
	Preconditions *AnyAllConditions `json:"preconditions,omitempty"`

	// CEL conditions under which a validate.cel rule applies.
	// +optional
	CELPreconditions []admissionregistrationv1.MatchCondition `json:"celPreconditions,omitempty"`

	// Changes resources.
	// +optional
	Mutation *kyvernov1.Mutation `json:"mutate,omitempty"`

	// Validates resources.
	// +optional
	Validation *Validation `json:"validate,omitempty"`

	// Creates other resources.
	// +optional
	Generation *kyvernov1.Generation `json:"generate,omitempty"`

	// Checks signatures and attestations of images.
	// +optional
	VerifyImages []ImageVerification `json:"verifyImages,omitempty"`

	// Ignores requests that the background controller itself makes, for generate and mutate-existing rules.
	// +optional
	// +kubebuilder:default=true
	SkipBackgroundRequests *bool `json:"skipBackgroundRequests,omitempty"`
}
