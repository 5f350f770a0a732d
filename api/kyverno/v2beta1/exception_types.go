package v2beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
)

// PolicyException exempts resources from rules of policies.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=policyexceptions,scope=Namespaced,shortName=polex,categories=kyverno
type PolicyException struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is exempt, and from which rules.
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

// PolicyExceptionSpec says what is exempt, and from which rules.
type PolicyExceptionSpec struct {
	// Whether the exception also holds in background scans; true when not given. An exception that looks at the requester
	// has to say false.
	// +optional
	Background *bool `json:"background,omitempty"`
	// The resources that are exempt. Operations are not looked at.
	Match MatchResources `json:"match"`
	// Conditions under which they are exempt; they see the context of the rule.
	// +optional
	Conditions *AnyAllConditions `json:"conditions,omitempty"`
	// The rules from which they are exempt.
	Exceptions []Exception `json:"exceptions"`
	// For podSecurity rules: the only controls from which they are exempt; all when empty.
	// +optional
	PodSecurity []kyvernov1.PodSecurityStandard `json:"podSecurity,omitempty"`
}

// Exception names rules of one policy.
type Exception struct {
	// Name of a ClusterPolicy, or namespace/name of a Policy; without wildcards.
	PolicyName string `json:"policyName"`
	// Names of its rules; wildcards are allowed. Rules generated for pod controllers have to be named too.
	RuleNames []string `json:"ruleNames"`
}
