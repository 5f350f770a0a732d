package v1alpha1

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UserInfo is the user who makes the requests.
type UserInfo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Roles and ClusterRoles are those that the user is bound to; a role is written namespace:name.
	Roles        []string `json:"roles,omitempty"`
	ClusterRoles []string `json:"clusterRoles,omitempty"`
	// AdmissionUserInfo is the user.
	AdmissionUserInfo authenticationv1.UserInfo `json:"userInfo,omitempty"`
}

// Context is what the libraries of CEL policies find.
type Context struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	ContextSpec       ContextSpec `json:"spec,omitempty"`
}

// ContextSpec are objects and images.
type ContextSpec struct {
	// Resources are objects of a cluster.
	Resources []any `json:"resources,omitempty"`
	// Images are data of images, as a registry would give them.
	Images []any `json:"images,omitempty"`
}

// ClusterResource is what a cluster holds.
type ClusterResource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ClusterResourceSpec `json:"spec,omitempty"`
}

// ClusterResourceSpec are custom kinds and objects.
type ClusterResourceSpec struct {
	// CRDs are files of CustomResourceDefinitions, relative to the ClusterResource's own file.
	CRDs []string `json:"crds,omitempty"`
	// Resources are objects.
	Resources []any `json:"resources,omitempty"`
}
