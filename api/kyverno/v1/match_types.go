package v1

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MatchResources selects requests: by any, by all, or by one bare filter (older form).
//
// +ephor:notTogether=any;all
type MatchResources struct {
	// At least one of the filters holds.
	// +optional
	Any ResourceFilters `json:"any,omitempty"`
	// Every filter holds.
	// +optional
	All ResourceFilters `json:"all,omitempty"`
	// Who made the request (older form; use any or all).
	UserInfo `json:",inline"`
	// What the request is about (older form; use any or all).
	// +optional
	ResourceDescription ResourceDescription `json:"resources,omitempty"`
}

// ResourceFilters is a list of filters.
type ResourceFilters []ResourceFilter

// ResourceFilter holds when all that it says holds.
type ResourceFilter struct {
	// Who made the request.
	UserInfo `json:",inline"`
	// What the request is about.
	// +optional
	ResourceDescription ResourceDescription `json:"resources,omitempty"`
}

// UserInfo selects by the requester. Lists that are given must each hold one that fits.
type UserInfo struct {
	// Roles of the requester, as namespace:name.
	// +optional
	Roles []string `json:"roles,omitempty"`
	// Cluster roles of the requester.
	// +optional
	ClusterRoles []string `json:"clusterRoles,omitempty"`
	// Users, groups and service accounts; wildcards are allowed in names.
	// +optional
	Subjects []rbacv1.Subject `json:"subjects,omitempty"`
}

// ResourceDescription selects by the resource. All attributes that are given must hold.
//
// +ephor:notTogether=name;names
type ResourceDescription struct {
	// Kinds, as Kind, version/Kind, group/version/Kind, each with a subresource behind / if wanted; wildcards are
	// allowed.
	// +optional
	Kinds []string `json:"kinds,omitempty"`
	// Name of the resource (older form; use names).
	// +optional
	Name string `json:"name,omitempty"`
	// Names of the resource; wildcards are allowed.
	// +optional
	Names []string `json:"names,omitempty"`
	// Namespaces of the resource; wildcards are allowed. A Namespace is selected by its own name.
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`
	// Annotations of the resource; wildcards are allowed in keys and values.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Labels of the resource; wildcards are allowed in matchLabels.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Labels of the resource's namespace; wildcards are allowed in matchLabels.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// Operations of the request; any when empty.
	// +optional
	Operations []AdmissionOperation `json:"operations,omitempty"`
}

// IsZero reports whether nothing is selected.
func (r ResourceDescription) IsZero() bool {
	return len(r.Kinds) == 0 && r.Name == "" && len(r.Names) == 0 && len(r.Namespaces) == 0 &&
		len(r.Annotations) == 0 && r.Selector == nil && r.NamespaceSelector == nil && len(r.Operations) == 0
}

// AdmissionOperation is an operation of an admission request.
//
// +kubebuilder:validation:Enum=CREATE;CONNECT;UPDATE;DELETE
type AdmissionOperation string
