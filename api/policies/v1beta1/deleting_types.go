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

	// What is deleted.
	Spec DeletingPolicySpec `json:"spec"`
	// What the controllers made of the policy.
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

// NamespacedDeletingPolicy deletes resources on a schedule, in its own namespace.
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

	// What is deleted.
	Spec DeletingPolicySpec `json:"spec"`
	// What the controllers made of the policy.
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

// DeletingPolicySpec says which resources are deleted, and when.
type DeletingPolicySpec struct {
	// The resources that the policy is for.
	// +optional
	MatchConstraints *admissionregistrationv1.MatchResources `json:"matchConstraints,omitempty"`
	// What has to be true of a resource.
	// +optional
	// +listType=map
	// +listMapKey=name
	Conditions []admissionregistrationv1.MatchCondition `json:"conditions,omitempty"`
	// Values that the conditions read as variables.⟨name⟩.
	// +optional
	// +listType=map
	// +listMapKey=name
	Variables []admissionregistrationv1.Variable `json:"variables,omitempty"`
	// When the policy runs, in cron format.
	Schedule string `json:"schedule"`
	// What becomes of dependents; the default of the resource's kind when not given.
	// +optional
	// +kubebuilder:validation:Enum=Foreground;Background;Orphan
	DeletionPropagationPolicy *metav1.DeletionPropagation `json:"deletionPropagationPolicy,omitempty"`
}

// DeletingPolicyStatus says what the controllers made of a policy.
type DeletingPolicyStatus struct {
	// Whether the policy is ready.
	// +optional
	ConditionStatus *ConditionStatus `json:"conditionStatus,omitempty"`
	// When the policy ran last.
	// +optional
	LastExecutionTime metav1.Time `json:"lastExecutionTime,omitempty,omitzero"`
}
