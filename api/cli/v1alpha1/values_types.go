package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Values contains values of variables for evaluations without a cluster. `ephor apply --values-file` and the field variables of a Test read
// it.
type Values struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	ValuesSpec        `json:",inline"`
}

// ValuesSpec contains the values. Their keys are names of variables, which may contain dots: request.operation, cm.data.key.
type ValuesSpec struct {
	// Values for all policies and resources. Keys are names of variables, which may contain dots, such as request.operation and cm.data.key.
	GlobalValues map[string]any `json:"globalValues,omitempty"`
	// Values for single policies.
	Policies []PolicyValues `json:"policies,omitempty"`
	// Labels of namespaces, for namespaceSelector.
	NamespaceSelectors []NamespaceSelector `json:"namespaceSelector,omitempty"`
	// Whole Namespace objects. They take precedence over namespaceSelector.
	Namespaces []corev1.Namespace `json:"namespaces,omitempty"`
	// Kinds that are subresources of other kinds.
	Subresources []Subresource `json:"subresources,omitempty"`
}

// PolicyValues are values for the policy of that name.
type PolicyValues struct {
	// Name of the policy.
	Name string `json:"name"`
	// Values for single resources.
	Resources []ResourceValues `json:"resources,omitempty"`
	// Values of context entries of single rules.
	Rules []RuleValues `json:"rules,omitempty"`
}

// ResourceValues are values for the resource of that name.
type ResourceValues struct {
	// Name of the resource.
	Name string `json:"name"`
	// Values, by names of variables.
	Values map[string]any `json:"values,omitempty"`
}

// RuleValues are values of the rule of that name, and of the rules generated from it.
type RuleValues struct {
	// Name of the rule, which includes the rules generated from it.
	Name string `json:"name"`
	// Values, by names of variables. A value with the name of a context entry replaces the entry.
	Values map[string]any `json:"values,omitempty"`
	// For each variable, one value for each element of a foreach.
	ForeachValues map[string][]any `json:"foreachValues,omitempty"`
}

// NamespaceSelector contains the labels of a namespace.
type NamespaceSelector struct {
	// Name of the namespace.
	Name string `json:"name"`
	// Its labels.
	Labels map[string]string `json:"labels,omitempty"`
}

// Subresource defines that objects of one kind are subresources of another.
type Subresource struct {
	// The kind of the subresource, such as Eviction with the name pods/eviction.
	Subresource metav1.APIResource `json:"subresource"`
	// The kind to which it belongs.
	ParentResource metav1.APIResource `json:"parentResource"`
}
