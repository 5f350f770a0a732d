package v1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Rule is one statement of a policy: which resources it is about, and one of mutate, validate, generate or
// verifyImages.
type Rule struct {
	// Unique within the policy.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// Values that the rule's expressions may use, read in this order and only when needed.
	// +optional
	Context []ContextEntry `json:"context,omitempty"`

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
	ImageExtractors ImageExtractorConfigs `json:"imageExtractors,omitempty"`

	// Conditions under which the rule applies: a map of any and all, or a plain list, which means all.
	// +optional
	Preconditions *apiextensionsv1.JSON `json:"preconditions,omitempty"`

	// CEL conditions under which a validate.cel rule applies.
	// +optional
	CELPreconditions []admissionregistrationv1.MatchCondition `json:"celPreconditions,omitempty"`

	// Changes resources.
	// +optional
	Mutation *Mutation `json:"mutate,omitempty"`

	// Validates resources.
	// +optional
	Validation *Validation `json:"validate,omitempty"`

	// Creates other resources.
	// +optional
	Generation *Generation `json:"generate,omitempty"`

	// Checks signatures and attestations of images.
	// +optional
	VerifyImages []ImageVerification `json:"verifyImages,omitempty"`

	// Ignores requests that the background controller itself makes, for generate and mutate-existing rules.
	// +optional
	// +kubebuilder:default=true
	SkipBackgroundRequests *bool `json:"skipBackgroundRequests,omitempty"`
}

// ImageExtractorConfigs are image extractors by kind.
type ImageExtractorConfigs map[string][]ImageExtractorConfig

// ImageExtractorConfig says where images are found in a kind of resource.
type ImageExtractorConfig struct {
	// Path to the images, such as /spec/containers/*.
	Path string `json:"path"`
	// Field of the object at path that holds the image; its last segment when empty.
	// +optional
	Value string `json:"value,omitempty"`
	// Name under which the images appear in the variable images; custom when empty.
	// +optional
	Name string `json:"name,omitempty"`
	// Field of the object at path that names the image.
	// +optional
	Key string `json:"key,omitempty"`
	// Expression that turns the field into an image reference.
	// +optional
	JMESPath string `json:"jmesPath,omitempty"`
}
