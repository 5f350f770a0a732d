package v2beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// PolicyException exempts resources from rules of policies.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=policyexceptions,scope=Namespaced,shortName=polex,categories=kyverno
type PolicyException struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which resources are exempt, and from which rules.
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

// PolicyExceptionSpec defines which resources are exempt, and from which rules.
type PolicyExceptionSpec struct {
	// Whether the exception also applies in background scans. The default is true. It must be false for an exception that selects by the
	// requester.
	// +optional
	Background *bool `json:"background,omitempty"`
	// Selects the exempt resources. Operations are ignored.
	Match MatchResources `json:"match"`
	// Conditions that must be true for a resource to be exempt. They may use the context of the rule.
	// +optional
	Conditions *AnyAllConditions `json:"conditions,omitempty"`
	// The rules from which the resources are exempt.
	Exceptions []Exception `json:"exceptions"`
	// For podSecurity rules: the controls from which the resources are exempt. All controls if empty.
	// +optional
	PodSecurity []kyvernov1.PodSecurityStandard `json:"podSecurity,omitempty"`
}

// Exception selects rules of one policy.
type Exception struct {
	// Name of a ClusterPolicy, or namespace/name of a Policy. Wildcards are not allowed.
	PolicyName string `json:"policyName"`
	// Names of its rules. Wildcards are allowed. Rules that are generated for controllers of Pods, such as autogen-⟨rule⟩, must be listed
	// too.
	RuleNames []string `json:"ruleNames"`
}
