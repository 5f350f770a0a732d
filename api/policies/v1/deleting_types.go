package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
)

// DeletingPolicy deletes resources on a schedule.
//
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=deletingpolicies,scope=Cluster,shortName=dpol,categories=kyverno
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=".status.conditionStatus.ready"
type DeletingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources are deleted, and when.
	Spec policiesv1beta1.DeletingPolicySpec `json:"spec"`
	// The state of the policy in the cluster. The controllers write it.
	// +optional
	Status policiesv1beta1.DeletingPolicyStatus `json:"status,omitempty,omitzero"`
}

// NamespacedDeletingPolicy deletes resources of its own namespace on a schedule.
//
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=namespaceddeletingpolicies,scope=Namespaced,shortName=ndpol,categories=kyverno
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=".status.conditionStatus.ready"
type NamespacedDeletingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources are deleted, and when.
	Spec policiesv1beta1.DeletingPolicySpec `json:"spec"`
	// The state of the policy in the cluster. The controllers write it.
	// +optional
	Status policiesv1beta1.DeletingPolicyStatus `json:"status,omitempty,omitzero"`
}
