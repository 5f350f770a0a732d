package v1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Mutation changes the resource of the request, or existing resources if it has targets.
type Mutation struct {
	// Applies the rule to the targets when the policy is created or changed. The default is false.
	// +optional
	MutateExistingOnPolicyUpdate *bool `json:"mutateExistingOnPolicyUpdate,omitempty"`
	// Selects existing resources to change, instead of the resource of the request.
	// +optional
	Targets []TargetResourceSpec `json:"targets,omitempty"`
	// A strategic merge patch. Anchors and variables are allowed.
	// +optional
	RawPatchStrategicMerge *apiextensionsv1.JSON `json:"patchStrategicMerge,omitempty"`
	// A JSON patch (RFC 6902) as text: a list in YAML or JSON.
	// +optional
	PatchesJSON6902 string `json:"patchesJson6902,omitempty"`
	// Patches the resource for each element of a list.
	// +optional
	ForEachMutation []ForEachMutation `json:"foreach,omitempty"`
}

// TargetResourceSpec selects existing resources.
type TargetResourceSpec struct {
	ResourceSpec `json:",inline"`
	// Selects the resources by labels.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Named values for the expressions of a target. They may use target.
	// +optional
	Context []ContextEntry `json:"context,omitempty"`
	// Conditions that must be true for a target to be changed.
	// +optional
	RawAnyAllConditions *apiextensionsv1.JSON `json:"preconditions,omitempty"`
}

// ResourceSpec is a reference to a resource.
type ResourceSpec struct {
	// API group and version.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind.
	// +optional
	Kind string `json:"kind,omitempty"`
	// Namespace.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name.
	// +optional
	Name string `json:"name,omitempty"`
	// UID.
	// +optional
	UID string `json:"uid,omitempty"`
}

// ForEachMutation patches the resource for each element of a list.
type ForEachMutation struct {
	// A JMESPath expression that returns the list.
	// +optional
	List string `json:"list,omitempty"`
	// The order of the elements: Ascending or Descending. The default is Descending for strategic merge patches and Ascending for JSON patches.
	// +optional
	Order *ForeachOrder `json:"order,omitempty"`
	// Named values for the expressions of an element. They may use element and elementIndex.
	// +optional
	Context []ContextEntry `json:"context,omitempty"`
	// Conditions that must be true for an element to be patched.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	AnyAllConditions *AnyAllConditions `json:"preconditions,omitempty"`
	// A strategic merge patch of the whole resource.
	// +optional
	RawPatchStrategicMerge *apiextensionsv1.JSON `json:"patchStrategicMerge,omitempty"`
	// A JSON patch of the whole resource.
	// +optional
	PatchesJSON6902 string `json:"patchesJson6902,omitempty"`
	// Patches for each element of a list inside the element.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	ForEachMutation []ForEachMutation `json:"foreach,omitempty"`
}

// ForeachOrder is the order in which elements are visited.
//
// +kubebuilder:validation:Enum=Ascending;Descending
type ForeachOrder string

// The values of ForeachOrder.
const (
	Ascending  ForeachOrder = "Ascending"
	Descending ForeachOrder = "Descending"
)
