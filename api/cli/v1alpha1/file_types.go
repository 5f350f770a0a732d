package v1alpha1

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UserInfo is the user who makes the requests.
type UserInfo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Roles and ClusterRoles are bound to the user. A role is written as namespace:name.
	Roles        []string `json:"roles,omitempty"`
	ClusterRoles []string `json:"clusterRoles,omitempty"`
	// AdmissionUserInfo is the user.
	AdmissionUserInfo authenticationv1.UserInfo `json:"userInfo,omitempty"`
}

// Context contains the objects and images that the libraries of CEL policies read.
type Context struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	ContextSpec       ContextSpec `json:"spec,omitempty"`
}

// ContextSpec contains objects and images.
type ContextSpec struct {
	// Resources are objects of a cluster.
	Resources []any `json:"resources,omitempty"`
	// Images are data of images, in the form that a registry returns.
	Images []any `json:"images,omitempty"`
}

// ClusterResource contains the objects of a cluster.
type ClusterResource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ClusterResourceSpec `json:"spec,omitempty"`
}

// ClusterResourceSpec contains custom kinds and objects.
type ClusterResourceSpec struct {
	// CRDs are files of CustomResourceDefinitions, relative to the ClusterResource's own file.
	CRDs []string `json:"crds,omitempty"`
	// Resources are objects.
	Resources []any `json:"resources,omitempty"`
}
