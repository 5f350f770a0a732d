package v1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Generation creates resources: one, or one for each element of a list.
type Generation struct {
	// Applies the rule to resources that are already there.
	// +optional
	GenerateExisting *bool `json:"generateExisting,omitempty"`
	// Keeps the generated resources equal to their source.
	// +optional
	Synchronize bool `json:"synchronize,omitempty"`
	// Keeps the generated resources when the policy is deleted.
	// +optional
	OrphanDownstreamOnPolicyDelete bool `json:"orphanDownstreamOnPolicyDelete,omitempty"`

	GeneratePattern `json:",inline"`

	// Resources for each element of a list.
	// +optional
	ForEachGeneration []ForEachGeneration `json:"foreach,omitempty"`
}

// GeneratePattern names a resource to create and where its content comes from: data, clone or cloneList.
type GeneratePattern struct {
	ResourceSpec `json:",inline"`
	// The content, written here.
	// +optional
	RawData *apiextensionsv1.JSON `json:"data,omitempty"`
	// The content is that of another resource of the same kind.
	// +optional
	Clone CloneFrom `json:"clone,omitempty,omitzero"`
	// Copies of several resources.
	// +optional
	CloneList CloneList `json:"cloneList,omitempty,omitzero"`
}

// CloneFrom names the resource to copy.
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
	// Labels of the sources.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// ForEachGeneration creates a resource for each element of a list.
type ForEachGeneration struct {
	// Expression that gives the list.
	// +optional
	List string `json:"list,omitempty"`
	// Values for the expressions, which may use element and elementIndex.
	// +optional
	Context []ContextEntry `json:"context,omitempty"`
	// Conditions under which a resource is created for an element.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	AnyAllConditions *AnyAllConditions `json:"preconditions,omitempty"`

	GeneratePattern `json:",inline"`
}
