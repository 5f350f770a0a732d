package v1beta1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ValidatingPolicy checks resources with expressions.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=validatingpolicies,scope=Cluster,shortName=vpol,categories=kyverno
// +kubebuilder:selectablefield:JSONPath=`.spec.evaluation.mode`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=".status.conditionStatus.ready"
type ValidatingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is checked.
	Spec ValidatingPolicySpec `json:"spec"`
	// What the controllers made of the policy.
	// +optional
	Status ValidatingPolicyStatus `json:"status,omitempty,omitzero"`
}

// ValidatingPolicyList is a list of ValidatingPolicy.
//
// +kubebuilder:object:root=true
type ValidatingPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ValidatingPolicy `json:"items"`
}

// NamespacedValidatingPolicy checks resources with expressions, in its own namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=namespacedvalidatingpolicies,scope=Namespaced,shortName=nvpol,categories=kyverno
// +kubebuilder:selectablefield:JSONPath=`.spec.evaluation.mode`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=".status.conditionStatus.ready"
type NamespacedValidatingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is checked.
	Spec ValidatingPolicySpec `json:"spec"`
	// What the controllers made of the policy.
	// +optional
	Status ValidatingPolicyStatus `json:"status,omitempty,omitzero"`
}

// NamespacedValidatingPolicyList is a list of NamespacedValidatingPolicy.
//
// +kubebuilder:object:root=true
type NamespacedValidatingPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NamespacedValidatingPolicy `json:"items"`
}

// ValidatingPolicySpec says which resources are checked, and how.
type ValidatingPolicySpec struct {
	// The resources that the policy is for.
	// +optional
	MatchConstraints *admissionregistrationv1.MatchResources `json:"matchConstraints,omitempty"`
	// What has to be true of each resource; the first that is false or has no value decides.
	// +optional
	// +listType=atomic
	Validations []admissionregistrationv1.Validation `json:"validations,omitempty"`
	// What an error of the match conditions means.
	// +optional
	// +kubebuilder:validation:Enum=Ignore;Fail
	FailurePolicy *admissionregistrationv1.FailurePolicyType `json:"failurePolicy,omitempty"`
	// Values that are added to the entries of reports.
	// +optional
	// +listType=atomic
	AuditAnnotations []admissionregistrationv1.AuditAnnotation `json:"auditAnnotations,omitempty"`
	// What has to be true for the policy to be for a resource.
	// +optional
	// +listType=map
	// +listMapKey=name
	MatchConditions []admissionregistrationv1.MatchCondition `json:"matchConditions,omitempty"`
	// Values that other expressions read as variables.⟨name⟩.
	// +optional
	// +listType=map
	// +listMapKey=name
	Variables []admissionregistrationv1.Variable `json:"variables,omitempty"`
	// The policies that are generated from this one.
	// +optional
	Autogen *ValidatingPolicyAutogen `json:"autogen,omitempty"`
	// What a failure means at admission: Deny (the default), Audit, Warn.
	// +optional
	// +listType=set
	// +kubebuilder:validation:items:Enum=Deny;Audit;Warn
	ValidationActions []admissionregistrationv1.ValidationAction `json:"validationActions,omitempty"`
	// The webhook of the policy.
	// +optional
	WebhookConfiguration *WebhookConfiguration `json:"webhookConfiguration,omitempty"`
	// When and for what the policy is evaluated.
	// +optional
	Evaluation *Evaluation `json:"evaluation,omitempty"`
}

// ValidatingPolicyAutogen says which policies are generated from a ValidatingPolicy.
type ValidatingPolicyAutogen struct {
	// Policies for the controllers of Pods.
	// +optional
	PodControllers *PodControllers `json:"podControllers,omitempty"`
	// A ValidatingAdmissionPolicy of the API server.
	// +optional
	ValidatingAdmissionPolicy *Switch `json:"validatingAdmissionPolicy,omitempty"`
}

// ValidatingPolicyStatus says what the controllers made of a policy.
type ValidatingPolicyStatus struct {
	// Whether the policy is ready.
	// +optional
	ConditionStatus *ConditionStatus `json:"conditionStatus,omitempty"`
	// The policies for the controllers of Pods.
	// +optional
	Autogen *ValidatingPolicyAutogenStatus `json:"autogen,omitempty"`
	// Whether a ValidatingAdmissionPolicy was generated.
	// +optional
	Generated *bool `json:"generated,omitempty"`
}

// ValidatingPolicyAutogenStatus holds the generated policies, by the name of their configuration.
type ValidatingPolicyAutogenStatus struct {
	// The generated policies.
	// +optional
	Configs map[string]ValidatingPolicyAutogenConfig `json:"configs,omitempty"`
}

// ValidatingPolicyAutogenConfig is a generated policy.
type ValidatingPolicyAutogenConfig struct {
	// The resources that it is for.
	Targets []Target `json:"targets"`
	// Its spec.
	Spec ValidatingPolicySpec `json:"spec"`
}
