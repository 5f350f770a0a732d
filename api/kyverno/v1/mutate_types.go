package v1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Mutation changes the resource of the request, or the targets when there are some.
type Mutation struct {
	// Applies the rule to the targets when the policy changes.
	// +optional
	MutateExistingOnPolicyUpdate *bool `json:"mutateExistingOnPolicyUpdate,omitempty"`
	// Existing resources to change instead of the resource of the request.
	// +optional
	Targets []TargetResourceSpec `json:"targets,omitempty"`
	// Strategic merge patch; anchors and variables are allowed.
	// +optional
	RawPatchStrategicMerge *apiextensionsv1.JSON `json:"patchStrategicMerge,omitempty"`
	// JSON patch (RFC 6902), as a YAML or JSON list in a string.
	// +optional
	PatchesJSON6902 string `json:"patchesJson6902,omitempty"`
	// Patches for each element of a list.
	// +optional
	ForEachMutation []ForEachMutation `json:"foreach,omitempty"`
}

// TargetResourceSpec selects existing resources.
type TargetResourceSpec struct {
	ResourceSpec `json:",inline"`
	// Labels of the resources.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Values for the expressions, which may use target.
	// +optional
	Context []ContextEntry `json:"context,omitempty"`
	// Conditions under which a target is changed.
	// +optional
	RawAnyAllConditions *apiextensionsv1.JSON `json:"preconditions,omitempty"`
}

// ResourceSpec names a resource.
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
	// Expression that gives the list.
	// +optional
	List string `json:"list,omitempty"`
	// The order of the elements. Ascending when empty, except for patches that remove elements.
	// +optional
	Order *ForeachOrder `json:"order,omitempty"`
	// Values for the expressions, which may use element and elementIndex.
	// +optional
	Context []ContextEntry `json:"context,omitempty"`
	// Conditions under which an element is patched.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	AnyAllConditions *AnyAllConditions `json:"preconditions,omitempty"`
	// Strategic merge patch of the whole resource.
	// +optional
	RawPatchStrategicMerge *apiextensionsv1.JSON `json:"patchStrategicMerge,omitempty"`
	// JSON patch of the whole resource.
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
