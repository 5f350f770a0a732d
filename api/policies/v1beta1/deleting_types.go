package v1beta1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeletingPolicy deletes resources on a schedule.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=deletingpolicies,scope=Cluster,shortName=dpol,categories=kyverno
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=".status.conditionStatus.ready"
type DeletingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources are deleted, and when.
	Spec DeletingPolicySpec `json:"spec"`
	// The state of the policy in the cluster. The controllers write it.
	// +optional
	Status DeletingPolicyStatus `json:"status,omitempty,omitzero"`
}

// DeletingPolicyList is a list of DeletingPolicy.
//
// +kubebuilder:object:root=true
type DeletingPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DeletingPolicy `json:"items"`
}

// NamespacedDeletingPolicy deletes resources of its own namespace on a schedule.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=namespaceddeletingpolicies,scope=Namespaced,shortName=ndpol,categories=kyverno
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=".status.conditionStatus.ready"
type NamespacedDeletingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources are deleted, and when.
	Spec DeletingPolicySpec `json:"spec"`
	// The state of the policy in the cluster. The controllers write it.
	// +optional
	Status DeletingPolicyStatus `json:"status,omitempty,omitzero"`
}

// NamespacedDeletingPolicyList is a list of NamespacedDeletingPolicy.
//
// +kubebuilder:object:root=true
type NamespacedDeletingPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NamespacedDeletingPolicy `json:"items"`
}

// DeletingPolicySpec defines which resources are deleted, and when.
type DeletingPolicySpec struct {
	// Selects the resources to which the policy applies, by group, version, resource, operation, namespace and labels.
	// +optional
	MatchConstraints *admissionregistrationv1.MatchResources `json:"matchConstraints,omitempty"`
	// CEL conditions that must all be true for a resource.
	// +optional
	// +listType=map
	// +listMapKey=name
	Conditions []admissionregistrationv1.MatchCondition `json:"conditions,omitempty"`
	// Named CEL expressions. The conditions read their values as variables.⟨name⟩.
	// +optional
	// +listType=map
	// +listMapKey=name
	Variables []admissionregistrationv1.Variable `json:"variables,omitempty"`
	// Schedule in cron format, such as "0 2 * * *".
	Schedule string `json:"schedule"`
	// How dependents of a deleted resource are treated: Foreground, Background or Orphan. The default depends on the kind of the resource.
	// +optional
	// +kubebuilder:validation:Enum=Foreground;Background;Orphan
	DeletionPropagationPolicy *metav1.DeletionPropagation `json:"deletionPropagationPolicy,omitempty"`
}

// DeletingPolicyStatus is the state of a DeletingPolicy in the cluster.
type DeletingPolicyStatus struct {
	// Whether the policy is ready, and its conditions.
	// +optional
	ConditionStatus *ConditionStatus `json:"conditionStatus,omitempty"`
	// Time of the last run.
	// +optional
	LastExecutionTime metav1.Time `json:"lastExecutionTime,omitempty,omitzero"`
}
