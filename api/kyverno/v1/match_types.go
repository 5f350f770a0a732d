package v1

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MatchResources selects requests: by any, by all, or by one bare filter (older form).
//
// +ephor:notTogether=any;all
type MatchResources struct {
	// At least one of the filters must match.
	// +optional
	Any ResourceFilters `json:"any,omitempty"`
	// Every filter must match.
	// +optional
	All ResourceFilters `json:"all,omitempty"`
	// Selects by the requester (older form; use any or all).
	UserInfo `json:",inline"`
	// Selects by the resource (older form; use any or all).
	// +optional
	ResourceDescription ResourceDescription `json:"resources,omitempty"`
}

// ResourceFilters is a list of filters.
type ResourceFilters []ResourceFilter

// ResourceFilter matches if all its attributes match.
type ResourceFilter struct {
	// Selects by the requester.
	UserInfo `json:",inline"`
	// Selects by the resource.
	// +optional
	ResourceDescription ResourceDescription `json:"resources,omitempty"`
}

// UserInfo selects by the requester. Of each list that is set, at least one entry must match.
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

// ResourceDescription selects by the resource. All attributes that are set must match.
//
// +ephor:notTogether=name;names
type ResourceDescription struct {
	// Kinds, as Kind, version/Kind or group/version/Kind, optionally followed by / and a subresource. Wildcards are allowed.
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
	// Operations of the request: CREATE, UPDATE, DELETE, CONNECT. All operations if empty.
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
