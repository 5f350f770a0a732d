package v1beta1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ValidatingPolicy validates resources with CEL expressions.
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

	// Which resources are validated, and how.
	Spec ValidatingPolicySpec `json:"spec"`
	// The state of the policy in the cluster. The controllers write it.
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

// NamespacedValidatingPolicy validates resources of its own namespace with CEL expressions.
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

	// Which resources are validated, and how.
	Spec ValidatingPolicySpec `json:"spec"`
	// The state of the policy in the cluster. The controllers write it.
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

// ValidatingPolicySpec defines which resources are validated, and how.
type ValidatingPolicySpec struct {
	// Selects the resources to which the policy applies, by group, version, resource, operation, namespace and labels.
	// +optional
	MatchConstraints *admissionregistrationv1.MatchResources `json:"matchConstraints,omitempty"`
	// CEL expressions that must be true for a resource, with the message of a failure. The first one that is false or
	// has no value determines the result.
	// +optional
	// +listType=atomic
	Validations []admissionregistrationv1.Validation `json:"validations,omitempty"`
	// Whether an error during evaluation denies the request (Fail) or admits it (Ignore). The default is Fail.
	// +optional
	// +kubebuilder:validation:Enum=Ignore;Fail
	FailurePolicy *admissionregistrationv1.FailurePolicyType `json:"failurePolicy,omitempty"`
	// CEL expressions whose values are added to the results in reports, and to the audit events of requests.
	// +optional
	// +listType=atomic
	AuditAnnotations []admissionregistrationv1.AuditAnnotation `json:"auditAnnotations,omitempty"`
	// CEL conditions that must all be true for the policy to apply to a resource. They are evaluated before all other expressions.
	// +optional
	// +listType=map
	// +listMapKey=name
	MatchConditions []admissionregistrationv1.MatchCondition `json:"matchConditions,omitempty"`
	// Named CEL expressions. Later expressions read their values as variables.⟨name⟩.
	// +optional
	// +listType=map
	// +listMapKey=name
	Variables []admissionregistrationv1.Variable `json:"variables,omitempty"`
	// Policies that are generated from this policy.
	// +optional
	Autogen *ValidatingPolicyAutogen `json:"autogen,omitempty"`
	// How a failed validation affects a request: Deny denies it, Warn admits it with a warning, Audit admits it and reports the failure.
	// The default is Deny.
	// +optional
	// +listType=set
	// +kubebuilder:validation:items:Enum=Deny;Audit;Warn
	ValidationActions []admissionregistrationv1.ValidationAction `json:"validationActions,omitempty"`
	// Settings of the webhook that calls the policy.
	// +optional
	WebhookConfiguration *WebhookConfiguration `json:"webhookConfiguration,omitempty"`
	// The input of the policy, and when it is evaluated.
	// +optional
	Evaluation *Evaluation `json:"evaluation,omitempty"`
}

// ValidatingPolicyAutogen defines the policies that are generated from a ValidatingPolicy.
type ValidatingPolicyAutogen struct {
	// Generation of policies for the controllers of Pods.
	// +optional
	PodControllers *PodControllers `json:"podControllers,omitempty"`
	// Generation of a ValidatingAdmissionPolicy, which the API server evaluates itself. The default is false.
	// +optional
	ValidatingAdmissionPolicy *Switch `json:"validatingAdmissionPolicy,omitempty"`
}

// ValidatingPolicyStatus is the state of a ValidatingPolicy in the cluster.
type ValidatingPolicyStatus struct {
	// Whether the policy is ready, and its conditions.
	// +optional
	ConditionStatus *ConditionStatus `json:"conditionStatus,omitempty"`
	// The generated policies for the controllers of Pods.
	// +optional
	Autogen *ValidatingPolicyAutogenStatus `json:"autogen,omitempty"`
	// Whether a ValidatingAdmissionPolicy was generated.
	// +optional
	Generated *bool `json:"generated,omitempty"`
}

// ValidatingPolicyAutogenStatus holds the generated policies, by the name of their configuration.
type ValidatingPolicyAutogenStatus struct {
	// The generated policies, by the name of their configuration.
	// +optional
	Configs map[string]ValidatingPolicyAutogenConfig `json:"configs,omitempty"`
}

// ValidatingPolicyAutogenConfig is one generated policy.
type ValidatingPolicyAutogenConfig struct {
	// The resources to which the generated policy applies.
	Targets []Target `json:"targets"`
	// Spec of the generated policy.
	Spec ValidatingPolicySpec `json:"spec"`
}
