package v1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Generation creates resources: one, or one for each element of a list.
type Generation struct {
	// Applies the rule to resources that already exist. The default is false.
	// +optional
	GenerateExisting *bool `json:"generateExisting,omitempty"`
	// Keeps the generated resources equal to their source, and deletes them with their trigger. The default is false.
	// +optional
	Synchronize bool `json:"synchronize,omitempty"`
	// Keeps the generated resources when the policy is deleted. The default is false. It only has an effect with synchronize.
	// +optional
	OrphanDownstreamOnPolicyDelete bool `json:"orphanDownstreamOnPolicyDelete,omitempty"`

	GeneratePattern `json:",inline"`

	// Creates resources for each element of a list.
	// +optional
	ForEachGeneration []ForEachGeneration `json:"foreach,omitempty"`
}

// GeneratePattern defines a resource to create, and the source of its content: data, clone or cloneList.
type GeneratePattern struct {
	ResourceSpec `json:",inline"`
	// The content of the resource. It may contain variables.
	// +optional
	RawData *apiextensionsv1.JSON `json:"data,omitempty"`
	// Copies another resource of the same kind.
	// +optional
	Clone CloneFrom `json:"clone,omitempty,omitzero"`
	// Copies of several resources.
	// +optional
	CloneList CloneList `json:"cloneList,omitempty,omitzero"`
}

// CloneFrom is a reference to the resource to copy.
type CloneFrom struct {
	// Namespace of the source.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name of the source.
	// +optional
	Name string `json:"name,omitempty"`
}

// CloneList selects resources to copy.
type CloneList struct {
	// Namespace of the sources.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Kinds of the sources, as version/Kind or group/version/Kind.
	// +optional
	Kinds []string `json:"kinds,omitempty"`
	// Selects the sources by labels.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// ForEachGeneration creates a resource for each element of a list.
type ForEachGeneration struct {
	// A JMESPath expression that returns the list.
	// +optional
	List string `json:"list,omitempty"`
	// Named values for the expressions of an element. They may use element and elementIndex.
	// +optional
	Context []ContextEntry `json:"context,omitempty"`
	// Conditions that must be true for a resource to be created for an element.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	AnyAllConditions *AnyAllConditions `json:"preconditions,omitempty"`

	GeneratePattern `json:",inline"`
}
