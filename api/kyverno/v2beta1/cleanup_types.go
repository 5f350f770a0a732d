package v2beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
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

	// What is deleted, and when.
	Spec CleanupPolicySpec `json:"spec"`
	// What the controller made of the policy.
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

	// What is deleted, and when.
	Spec CleanupPolicySpec `json:"spec"`
	// What the controller made of the policy.
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

// CleanupPolicySpec says what is deleted, and when.
type CleanupPolicySpec struct {
	// Values for the conditions: apiCall, globalReference and variable entries.
	// +optional
	Context []kyvernov1.ContextEntry `json:"context,omitempty"`
	// The resources to delete. Operations and requesters are not looked at.
	MatchResources MatchResources `json:"match"`
	// The resources to keep although they match.
	// +optional
	ExcludeResources *MatchResources `json:"exclude,omitempty"`
	// When to delete, in cron format.
	Schedule string `json:"schedule"`
	// Conditions under which a resource is deleted; `target` is the resource.
	// +optional
	Conditions *AnyAllConditions `json:"conditions,omitempty"`
	// What becomes of dependents; the default of the resource's kind when not given.
	// +optional
	// +kubebuilder:validation:Enum=Foreground;Background;Orphan
	DeletionPropagationPolicy *metav1.DeletionPropagation `json:"deletionPropagationPolicy,omitempty"`
}

// CleanupPolicyStatus says what the controller made of the policy.
type CleanupPolicyStatus struct {
	// The condition Ready says whether the policy is executed.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// When the policy was executed last.
	// +optional
	LastExecutionTime metav1.Time `json:"lastExecutionTime,omitempty,omitzero"`
}
