package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Values contains values of variables for evaluations without a cluster.
type Values struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	ValuesSpec        `json:",inline"`
}

// ValuesSpec contains the values. Their keys are names of variables, which may contain dots: request.operation, cm.data.key.
type ValuesSpec struct {
	// GlobalValues apply to all policies and resources.
	GlobalValues map[string]any `json:"globalValues,omitempty"`
	// Policies contain the values for single policies.
	Policies []PolicyValues `json:"policies,omitempty"`
	// NamespaceSelectors are the labels of namespaces.
	NamespaceSelectors []NamespaceSelector `json:"namespaceSelector,omitempty"`
	// Namespaces are whole Namespace objects. They take precedence over NamespaceSelectors.
	Namespaces []corev1.Namespace `json:"namespaces,omitempty"`
	// Subresources define which kinds are subresources of other kinds.
	Subresources []Subresource `json:"subresources,omitempty"`
}

// PolicyValues are values for the policy of that name.
type PolicyValues struct {
	Name string `json:"name"`
	// Resources contain the values for single resources.
	Resources []ResourceValues `json:"resources,omitempty"`
	// Rules contain the values of context entries of single rules.
	Rules []RuleValues `json:"rules,omitempty"`
}

// ResourceValues are values for the resource of that name.
type ResourceValues struct {
	Name   string         `json:"name"`
	Values map[string]any `json:"values,omitempty"`
}

// RuleValues are values of the rule of that name, and of the rules generated from it.
type RuleValues struct {
	Name   string         `json:"name"`
	Values map[string]any `json:"values,omitempty"`
	// ForeachValues contain, for each variable, one value for each element of a foreach.
	ForeachValues map[string][]any `json:"foreachValues,omitempty"`
}

// NamespaceSelector contains the labels of a namespace.
type NamespaceSelector struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
}

// Subresource defines that objects of one kind are subresources of another.
type Subresource struct {
	Subresource    metav1.APIResource `json:"subresource"`
	ParentResource metav1.APIResource `json:"parentResource"`
}
