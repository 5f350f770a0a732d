package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
)

// GeneratingPolicy creates resources when other resources are created, updated or deleted.
//
// +kubebuilder:subresource:status
// +kubebuilder:deprecatedversion
// +kubebuilder:resource:path=generatingpolicies,scope=Cluster,shortName=gpol,categories=kyverno
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=".metadata.creationTimestamp"
type GeneratingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources trigger the policy, and which resources it creates.
	Spec policiesv1beta1.GeneratingPolicySpec `json:"spec"`
	// The state of the policy in the cluster. The controllers write it.
	// +optional
	Status policiesv1beta1.GeneratingPolicyStatus `json:"status,omitempty,omitzero"`
}
