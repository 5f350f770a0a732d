package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov2beta1 "ephor.invalid/ephor/api/kyverno/v2beta1"
)

// CleanupPolicy deletes resources of its own namespace on a schedule.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=cleanuppolicies,scope=Namespaced,shortName=cleanpol,categories=kyverno
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=".spec.schedule"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type CleanupPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources are deleted, and when.
	Spec kyvernov2beta1.CleanupPolicySpec `json:"spec"`
	// The state of the policy in the cluster. The controller writes it.
	// +optional
	Status kyvernov2beta1.CleanupPolicyStatus `json:"status,omitempty"`
}

// CleanupPolicyList is a list of CleanupPolicy.
//
// +kubebuilder:object:root=true
type CleanupPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CleanupPolicy `json:"items"`
}

// ClusterCleanupPolicy deletes resources of the whole cluster on a schedule.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=clustercleanuppolicies,scope=Cluster,shortName=ccleanpol,categories=kyverno
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=".spec.schedule"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type ClusterCleanupPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources are deleted, and when.
	Spec kyvernov2beta1.CleanupPolicySpec `json:"spec"`
	// The state of the policy in the cluster. The controller writes it.
	// +optional
	Status kyvernov2beta1.CleanupPolicyStatus `json:"status,omitempty"`
}

// ClusterCleanupPolicyList is a list of ClusterCleanupPolicy.
//
// +kubebuilder:object:root=true
type ClusterCleanupPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterCleanupPolicy `json:"items"`
}
