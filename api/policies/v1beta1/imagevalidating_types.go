package v1beta1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ImageValidatingPolicy validates the images of containers and volumes: their signatures, attestations and metadata.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=imagevalidatingpolicies,scope=Cluster,shortName=ivpol,categories=kyverno
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=".status.conditionStatus.ready"
type ImageValidatingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources are validated, and how.
	Spec ImageValidatingPolicySpec `json:"spec"`
	// The state of the policy in the cluster. The controllers write it.
	// +optional
	Status ImageValidatingPolicyStatus `json:"status,omitempty,omitzero"`
}

// ImageValidatingPolicyList is a list of ImageValidatingPolicy.
//
// +kubebuilder:object:root=true
type ImageValidatingPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ImageValidatingPolicy `json:"items"`
}

// NamespacedImageValidatingPolicy validates the images of containers and volumes in its own namespace: their signatures, attestations and
// metadata.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=namespacedimagevalidatingpolicies,scope=Namespaced,shortName=nivpol,categories=kyverno
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=".status.conditionStatus.ready"
type NamespacedImageValidatingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources are validated, and how.
	Spec ImageValidatingPolicySpec `json:"spec"`
	// The state of the policy in the cluster. The controllers write it.
	// +optional
	Status ImageValidatingPolicyStatus `json:"status,omitempty,omitzero"`
}

// NamespacedImageValidatingPolicyList is a list of NamespacedImageValidatingPolicy.
//
// +kubebuilder:object:root=true
type NamespacedImageValidatingPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NamespacedImageValidatingPolicy `json:"items"`
}

// ImageValidatingPolicySpec defines which images are validated, and how.
type ImageValidatingPolicySpec struct {
	// Selects the resources to which the policy applies, by group, version, resource, operation, namespace and labels.
	// +optional
	MatchConstraints *admissionregistrationv1.MatchResources `json:"matchConstraints,omitempty"`
	// Whether an error during evaluation denies the request (Fail) or admits it (Ignore). The default is Fail.
	// +optional
	// +kubebuilder:validation:Enum=Ignore;Fail
	FailurePolicy *admissionregistrationv1.FailurePolicyType `json:"failurePolicy,omitempty"`
	// CEL expressions whose values are added to the results in reports, and to the audit events of requests.
	// +optional
	// +listType=atomic
	AuditAnnotations []admissionregistrationv1.AuditAnnotation `json:"auditAnnotations,omitempty"`
	// How a failed validation affects a request: Deny denies it, Warn admits it with a warning, Audit admits it and reports the failure.
	// The default is Deny.
	// +optional
	// +listType=set
	// +kubebuilder:validation:items:Enum=Deny;Audit;Warn
	ValidationActions []admissionregistrationv1.ValidationAction `json:"validationActions,omitempty"`
	// CEL conditions that must all be true for the policy to apply to a resource. They are evaluated before all other expressions.
	// +optional
	MatchConditions []admissionregistrationv1.MatchCondition `json:"matchConditions,omitempty"`
	// Named CEL expressions. Later expressions read their values as variables.⟨name⟩.
	// +optional
	Variables []admissionregistrationv1.Variable `json:"variables,omitempty"`
	// Checks that apply to every selected image, in addition to the validations.
	// +optional
	// +kubebuilder:default={}
	ValidationConfigurations ValidationConfiguration `json:"validationConfigurations,omitempty,omitzero"`
	// Selects the images to which the policy applies. All images if empty.
	// +optional
	MatchImageReferences []MatchImageReference `json:"matchImageReferences,omitempty"`
	// Access to the registries of the images.
	// +optional
	Credentials *Credentials `json:"credentials,omitempty"`
	// Expressions that find images in resources other than Pods and their controllers. The images of those are in the lists containers,
	// initContainers, ephemeralContainers and imageVolumes.
	// +optional
	ImageExtractors []ImageExtractor `json:"images,omitempty"`
	// The signers that expressions refer to, by their names.
	Attestors []Attestor `json:"attestors"`
	// The types of attestations that the validations verify.
	// +optional
	Attestations []Attestation `json:"attestations,omitempty"`
	// CEL expressions that must be true for a resource, with the message of a failure. The first one that is false or
	// has no value determines the result.
	// +listType=atomic
	Validations []admissionregistrationv1.Validation `json:"validations"`
	// Settings of the webhook that calls the policy.
	// +optional
	WebhookConfiguration *WebhookConfiguration `json:"webhookConfiguration,omitempty"`
	// The input of the policy, and when it is evaluated.
	// +optional
	Evaluation *Evaluation `json:"evaluation,omitempty"`
	// Policies that are generated from this policy.
	// +optional
	Autogen *ImageValidatingPolicyAutogen `json:"autogen,omitempty"`
}

// ValidationConfiguration enables checks that apply to every selected image, in addition to the validations.
type ValidationConfiguration struct {
	// Whether the digest is added to image references with a tag at admission. The default is true.
	// +optional
	// +kubebuilder:default=true
	MutateDigest *bool `json:"mutateDigest,omitempty"`
	// Whether every image must have a digest. The default is true.
	// +optional
	// +kubebuilder:default=true
	VerifyDigest *bool `json:"verifyDigest,omitempty"`
	// Whether a signature or attestation of every image must have been verified. The default is true.
	// +optional
	// +kubebuilder:default=true
	Required *bool `json:"required,omitempty"`
}

// MatchImageReference selects images.
//
// +ephor:exactlyOneOf=glob;expression
type MatchImageReference struct {
	// A pattern of image references. "*" matches any text, slashes included.
	// +optional
	Glob string `json:"glob,omitempty"`
	// A CEL expression that returns whether the image matches. It reads the image reference as ref.
	// +optional
	Expression string `json:"expression,omitempty"`
}

// ImageExtractor finds image references in a resource.
type ImageExtractor struct {
	// Name of the list of images. Expressions read it as images.⟨name⟩.
	Name string `json:"name"`
	// A CEL expression whose value is a list of image references.
	Expression string `json:"expression"`
}

// ImageValidatingPolicyAutogen defines the policies that are generated from an ImageValidatingPolicy.
type ImageValidatingPolicyAutogen struct {
	// Generation of policies for the controllers of Pods.
	// +optional
	PodControllers *PodControllers `json:"podControllers,omitempty"`
}

// ImageValidatingPolicyStatus is the state of an ImageValidatingPolicy in the cluster.
type ImageValidatingPolicyStatus struct {
	// Whether the policy is ready, and its conditions.
	// +optional
	ConditionStatus *ConditionStatus `json:"conditionStatus,omitempty"`
	// The generated policies for the controllers of Pods.
	// +optional
	Autogen *ImageValidatingPolicyAutogenStatus `json:"autogen,omitempty"`
}

// ImageValidatingPolicyAutogenStatus holds the generated policies, by the name of their configuration.
type ImageValidatingPolicyAutogenStatus struct {
	// The generated policies, by the name of their configuration.
	// +optional
	Configs map[string]ImageValidatingPolicyAutogenConfig `json:"configs,omitempty"`
}

// ImageValidatingPolicyAutogenConfig is one generated policy.
type ImageValidatingPolicyAutogenConfig struct {
	// The resources to which the generated policy applies.
	Targets []Target `json:"targets"`
	// Spec of the generated policy.
	Spec ImageValidatingPolicySpec `json:"spec"`
}
