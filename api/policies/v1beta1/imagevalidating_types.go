package v1beta1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ImageValidatingPolicy checks the images of resources: their signatures, attestations and metadata.
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

	// What is checked.
	Spec ImageValidatingPolicySpec `json:"spec"`
	// What the controllers made of the policy.
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

// NamespacedImageValidatingPolicy checks the images of resources: their signatures, attestations and metadata, in its own namespace.
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

	// What is checked.
	Spec ImageValidatingPolicySpec `json:"spec"`
	// What the controllers made of the policy.
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

// ImageValidatingPolicySpec says which images are checked, and how.
type ImageValidatingPolicySpec struct {
	// The resources that the policy is for.
	// +optional
	MatchConstraints *admissionregistrationv1.MatchResources `json:"matchConstraints,omitempty"`
	// What an error means.
	// +optional
	// +kubebuilder:validation:Enum=Ignore;Fail
	FailurePolicy *admissionregistrationv1.FailurePolicyType `json:"failurePolicy,omitempty"`
	// Values that are added to the entries of reports.
	// +optional
	// +listType=atomic
	AuditAnnotations []admissionregistrationv1.AuditAnnotation `json:"auditAnnotations,omitempty"`
	// What a failure means at admission: Deny (the default), Audit, Warn.
	// +optional
	// +listType=set
	// +kubebuilder:validation:items:Enum=Deny;Audit;Warn
	ValidationActions []admissionregistrationv1.ValidationAction `json:"validationActions,omitempty"`
	// What has to be true for the policy to be for a resource.
	// +optional
	MatchConditions []admissionregistrationv1.MatchCondition `json:"matchConditions,omitempty"`
	// Values that other expressions read as variables.⟨name⟩.
	// +optional
	Variables []admissionregistrationv1.Variable `json:"variables,omitempty"`
	// What is checked of images besides the validations.
	// +optional
	// +kubebuilder:default={}
	ValidationConfigurations ValidationConfiguration `json:"validationConfigurations,omitempty,omitzero"`
	// The images that the policy is for; all when empty.
	// +optional
	MatchImageReferences []MatchImageReference `json:"matchImageReferences,omitempty"`
	// How registries are read.
	// +optional
	Credentials *Credentials `json:"credentials,omitempty"`
	// Where a resource has images, besides the fields of Pods and their controllers.
	// +optional
	ImageExtractors []ImageExtractor `json:"images,omitempty"`
	// Who may sign.
	Attestors []Attestor `json:"attestors"`
	// The statements about images that validations use.
	// +optional
	Attestations []Attestation `json:"attestations,omitempty"`
	// What has to be true of each resource; the first that is false or has no value decides.
	// +listType=atomic
	Validations []admissionregistrationv1.Validation `json:"validations"`
	// The webhook of the policy.
	// +optional
	WebhookConfiguration *WebhookConfiguration `json:"webhookConfiguration,omitempty"`
	// When and for what the policy is evaluated.
	// +optional
	Evaluation *Evaluation `json:"evaluation,omitempty"`
	// The policies that are generated from this one.
	// +optional
	Autogen *ImageValidatingPolicyAutogen `json:"autogen,omitempty"`
}

// ValidationConfiguration says what is checked of images besides the validations.
type ValidationConfiguration struct {
	// Whether tags are replaced by digests at admission.
	// +optional
	// +kubebuilder:default=true
	MutateDigest *bool `json:"mutateDigest,omitempty"`
	// Whether images must have a digest.
	// +optional
	// +kubebuilder:default=true
	VerifyDigest *bool `json:"verifyDigest,omitempty"`
	// Whether images must have been verified.
	// +optional
	// +kubebuilder:default=true
	Required *bool `json:"required,omitempty"`
}

// MatchImageReference selects images.
//
// +ephor:exactlyOneOf=glob;expression
type MatchImageReference struct {
	// A pattern of references.
	// +optional
	Glob string `json:"glob,omitempty"`
	// An expression over ref, the reference.
	// +optional
	Expression string `json:"expression,omitempty"`
}

// ImageExtractor finds images in a resource.
type ImageExtractor struct {
	// The name under which expressions read the images: images.⟨name⟩.
	Name string `json:"name"`
	// Gives a list of references.
	Expression string `json:"expression"`
}

// ImageValidatingPolicyAutogen says which policies are generated from an ImageValidatingPolicy.
type ImageValidatingPolicyAutogen struct {
	// Policies for the controllers of Pods.
	// +optional
	PodControllers *PodControllers `json:"podControllers,omitempty"`
}

// ImageValidatingPolicyStatus says what the controllers made of a policy.
type ImageValidatingPolicyStatus struct {
	// Whether the policy is ready.
	// +optional
	ConditionStatus *ConditionStatus `json:"conditionStatus,omitempty"`
	// The policies for the controllers of Pods.
	// +optional
	Autogen *ImageValidatingPolicyAutogenStatus `json:"autogen,omitempty"`
}

// ImageValidatingPolicyAutogenStatus holds the generated policies, by the name of their configuration.
type ImageValidatingPolicyAutogenStatus struct {
	// The generated policies.
	// +optional
	Configs map[string]ImageValidatingPolicyAutogenConfig `json:"configs,omitempty"`
}

// ImageValidatingPolicyAutogenConfig is a generated policy.
type ImageValidatingPolicyAutogenConfig struct {
	// The resources that it is for.
	Targets []Target `json:"targets"`
	// Its spec.
	Spec ImageValidatingPolicySpec `json:"spec"`
}
