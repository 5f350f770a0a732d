package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Values give variables their values where no cluster can be asked.
type Values struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	ValuesSpec        `json:",inline"`
}

// ValuesSpec are the values. The keys of values are variable names, also with dots: request.operation, cm.data.key.
type ValuesSpec struct {
	// GlobalValues hold for all policies and resources.
	GlobalValues map[string]any `json:"globalValues,omitempty"`
	// Policies hold the values for single policies.
	Policies []PolicyValues `json:"policies,omitempty"`
	// NamespaceSelectors are the labels of namespaces.
	NamespaceSelectors []NamespaceSelector `json:"namespaceSelector,omitempty"`
	// Namespaces are whole Namespace objects; they win over NamespaceSelectors.
	Namespaces []corev1.Namespace `json:"namespaces,omitempty"`
	// Subresources say which kinds are subresources of which others.
	Subresources []Subresource `json:"subresources,omitempty"`
}

// PolicyValues are values for the policy of that name.
type PolicyValues struct {
	Name string `json:"name"`
	// Resources hold the values for single resources.
	Resources []ResourceValues `json:"resources,omitempty"`
	// Rules hold the values of context entries of single rules.
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
	// ForeachValues hold for each variable one value for each element of a foreach.
	ForeachValues map[string][]any `json:"foreachValues,omitempty"`
}

// NamespaceSelector gives a namespace its labels.
type NamespaceSelector struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
}

// Subresource says that objects of one kind are subresources of another.
type Subresource struct {
	Subresource    metav1.APIResource `json:"subresource"`
	ParentResource metav1.APIResource `json:"parentResource"`
}
