package v2beta1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// Rule is one rule of a policy: the resources to which it applies, and one of mutate, validate, generate or verifyImages.
type Rule struct {
	// Name of the rule. It is unique within the policy, and has at most 63 characters.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// Named values that the rule's expressions may use. They are loaded in this order, and only when they are read.
	// +optional
	Context []kyvernov1.ContextEntry `json:"context,omitempty"`

	// Additional properties of the rule's results in reports. The values may contain variables.
	// +optional
	ReportProperties map[string]string `json:"reportProperties,omitempty"`

	// Selects the requests and resources to which the rule applies.
	MatchResources MatchResources `json:"match"`

	// Excludes requests and resources that match.
	// +optional
	ExcludeResources *MatchResources `json:"exclude,omitempty"`

	// Finds image references in custom resources, by kind.
	// +optional
	ImageExtractors kyvernov1.ImageExtractorConfigs `json:"imageExtractors,omitempty"`

	// Conditions that must be true for the rule to apply.
	// +optional
	Preconditions *AnyAllConditions `json:"preconditions,omitempty"`

	// CEL conditions that must be true for a validate.cel rule to apply.
	// +optional
	CELPreconditions []admissionregistrationv1.MatchCondition `json:"celPreconditions,omitempty"`

	// Changes the resource of a request, or existing resources.
	// +optional
	Mutation *kyvernov1.Mutation `json:"mutate,omitempty"`

	// Validates resources.
	// +optional
	Validation *Validation `json:"validate,omitempty"`

	// Creates other resources.
	// +optional
	Generation *kyvernov1.Generation `json:"generate,omitempty"`

	// Verifies signatures and attestations of the images of containers and image volumes.
	// +optional
	VerifyImages []ImageVerification `json:"verifyImages,omitempty"`

	// Whether generate rules and mutate rules with targets ignore requests of the background controller. The default is true.
	// +optional
	// +kubebuilder:default=true
	SkipBackgroundRequests *bool `json:"skipBackgroundRequests,omitempty"`
}
