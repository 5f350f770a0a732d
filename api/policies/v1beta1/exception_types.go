package v1beta1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// PolicyException exempts resources from policies of this group.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:resource:path=policyexceptions,scope=Namespaced
type PolicyException struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources are exempt, and from which policies.
	Spec PolicyExceptionSpec `json:"spec"`
	// Whether the exception can be evaluated.
	// +optional
	Status kyvernov1.PolicyExceptionStatus `json:"status,omitempty,omitzero"`
}

// PolicyExceptionList is a list of PolicyException.
//
// +kubebuilder:object:root=true
type PolicyExceptionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PolicyException `json:"items"`
}

// PolicyExceptionSpec defines which resources are exempt, and from which policies.
type PolicyExceptionSpec struct {
	// The policies from which matching resources are exempt.
	PolicyRefs []PolicyRef `json:"policyRefs"`
	// CEL conditions that must all be true for a resource.
	// +optional
	MatchConditions []admissionregistrationv1.MatchCondition `json:"matchConditions,omitempty"`
	// Image references that policies read as exceptions.allowedImages. An exception with images or allowedValues exempts only where the
	// policy's expressions read these fields.
	// +optional
	Images []string `json:"images,omitempty"`
	// Values that policies read as exceptions.allowedValues.
	// +optional
	AllowedValues []string `json:"allowedValues,omitempty"`
	// Result that reports contain for an exempt resource: skip or pass. The default is skip.
	// +optional
	// +kubebuilder:validation:Enum=skip;pass
	// +kubebuilder:default=skip
	ReportResult string `json:"reportResult,omitempty"`
	// Time at which the exception expires. Expired exceptions have no effect.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
	// Additional fields for the author's own use. They have no effect.
	// +optional
	Properties map[string]string `json:"properties,omitempty"`
	// Stored without effect.
	// +optional
	EvaluationMode string `json:"evaluationMode,omitempty"`
}

// PolicyRef is a reference to a policy.
type PolicyRef struct {
	// Name of the policy, without its namespace.
	Name string `json:"name"`
	// Kind of the policy.
	Kind string `json:"kind"`
}
