package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
)

// PolicyException exempts resources from policies of this group.
//
// +kubebuilder:subresource:status
// +kubebuilder:deprecatedversion
// +kubebuilder:resource:path=policyexceptions,scope=Namespaced
type PolicyException struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources are exempt, and from which policies.
	Spec policiesv1beta1.PolicyExceptionSpec `json:"spec"`
	// Whether the exception can be evaluated.
	// +optional
	Status kyvernov1.PolicyExceptionStatus `json:"status,omitempty,omitzero"`
}
