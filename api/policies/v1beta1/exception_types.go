package v1beta1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyException exempts resources from policies of this group.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=policyexceptions,scope=Namespaced
type PolicyException struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is exempt.
	Spec PolicyExceptionSpec `json:"spec"`
}

// PolicyExceptionList is a list of PolicyException.
//
// +kubebuilder:object:root=true
type PolicyExceptionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PolicyException `json:"items"`
}

// PolicyExceptionSpec says which resources are exempt, and from what.
type PolicyExceptionSpec struct {
	// The policies.
	PolicyRefs []PolicyRef `json:"policyRefs"`
	// What has to be true of a resource.
	// +optional
	MatchConditions []admissionregistrationv1.MatchCondition `json:"matchConditions,omitempty"`
	// Images that the expressions of policies read as exceptions.allowedImages.
	// +optional
	Images []string `json:"images,omitempty"`
	// Values that the expressions of policies read as exceptions.allowedValues.
	// +optional
	AllowedValues []string `json:"allowedValues,omitempty"`
	// What the report of an exempt resource says: skip (the default) or pass.
	// +optional
	// +kubebuilder:validation:Enum=skip;pass
	// +kubebuilder:default=skip
	ReportResult string `json:"reportResult,omitempty"`
	// The moment after which the exception does not count.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
	// Free fields of the author.
	// +optional
	Properties map[string]string `json:"properties,omitempty"`
	// Not used.
	// +optional
	EvaluationMode string `json:"evaluationMode,omitempty"`
}

// PolicyRef names a policy.
type PolicyRef struct {
	// Name of the policy, without its namespace.
	Name string `json:"name"`
	// Kind of the policy.
	Kind string `json:"kind"`
}
