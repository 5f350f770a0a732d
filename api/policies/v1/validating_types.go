package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
)

// ValidatingPolicy validates resources with CEL expressions.
//
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=validatingpolicies,scope=Cluster,shortName=vpol,categories=kyverno
// +kubebuilder:selectablefield:JSONPath=`.spec.evaluation.mode`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=".status.conditionStatus.ready"
type ValidatingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources are validated, and how.
	Spec policiesv1beta1.ValidatingPolicySpec `json:"spec"`
	// The state of the policy in the cluster. The controllers write it.
	// +optional
	Status policiesv1beta1.ValidatingPolicyStatus `json:"status,omitempty,omitzero"`
}

// NamespacedValidatingPolicy validates resources of its own namespace with CEL expressions.
//
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=namespacedvalidatingpolicies,scope=Namespaced,shortName=nvpol,categories=kyverno
// +kubebuilder:selectablefield:JSONPath=`.spec.evaluation.mode`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=".status.conditionStatus.ready"
type NamespacedValidatingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources are validated, and how.
	Spec policiesv1beta1.ValidatingPolicySpec `json:"spec"`
	// The state of the policy in the cluster. The controllers write it.
	// +optional
	Status policiesv1beta1.ValidatingPolicyStatus `json:"status,omitempty,omitzero"`
}
