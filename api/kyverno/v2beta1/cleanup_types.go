package v2beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// CleanupPolicy deletes resources of its own namespace on a schedule.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=cleanuppolicies,scope=Namespaced,shortName=cleanpol,categories=kyverno
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=".spec.schedule"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type CleanupPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources are deleted, and when.
	Spec CleanupPolicySpec `json:"spec"`
	// The state of the policy in the cluster. The controller writes it.
	// +optional
	Status CleanupPolicyStatus `json:"status,omitempty"`
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
// +kubebuilder:resource:path=clustercleanuppolicies,scope=Cluster,shortName=ccleanpol,categories=kyverno
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=".spec.schedule"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp"
type ClusterCleanupPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources are deleted, and when.
	Spec CleanupPolicySpec `json:"spec"`
	// The state of the policy in the cluster. The controller writes it.
	// +optional
	Status CleanupPolicyStatus `json:"status,omitempty"`
}

// ClusterCleanupPolicyList is a list of ClusterCleanupPolicy.
//
// +kubebuilder:object:root=true
type ClusterCleanupPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterCleanupPolicy `json:"items"`
}

// CleanupPolicySpec defines which resources are deleted, and when.
type CleanupPolicySpec struct {
	// Named values for the conditions: entries with apiCall, globalReference or variable.
	// +optional
	Context []kyvernov1.ContextEntry `json:"context,omitempty"`
	// Selects the resources to delete. Operations and requesters are ignored.
	MatchResources MatchResources `json:"match"`
	// Excludes resources that match.
	// +optional
	ExcludeResources *MatchResources `json:"exclude,omitempty"`
	// Schedule in cron format, such as "0 2 * * *".
	Schedule string `json:"schedule"`
	// Conditions that must be true for a resource to be deleted. `target` is the resource.
	// +optional
	Conditions *AnyAllConditions `json:"conditions,omitempty"`
	// How dependents of a deleted resource are treated: Foreground, Background or Orphan. The default depends on the kind of the resource.
	// +optional
	// +kubebuilder:validation:Enum=Foreground;Background;Orphan
	DeletionPropagationPolicy *metav1.DeletionPropagation `json:"deletionPropagationPolicy,omitempty"`
}

// CleanupPolicyStatus is the state of a policy in the cluster.
type CleanupPolicyStatus struct {
	// The condition Ready reports whether the policy is executed.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Time of the last execution.
	// +optional
	LastExecutionTime metav1.Time `json:"lastExecutionTime,omitempty,omitzero"`
}
