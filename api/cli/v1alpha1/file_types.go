package v1alpha1

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UserInfo is the user who makes the requests. `ephor apply --userinfo` and the field userinfo of a Test read it.
type UserInfo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Roles that are bound to the user, each as namespace:name.
	Roles []string `json:"roles,omitempty"`
	// ClusterRoles that are bound to the user.
	ClusterRoles []string `json:"clusterRoles,omitempty"`
	// The user, as the API server sends it with a request.
	AdmissionUserInfo authenticationv1.UserInfo `json:"userInfo,omitempty"`
}

// Context contains the objects and images that the libraries of CEL policies find. `ephor apply --context-file` and the field context of a
// Test read it.
type Context struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the libraries find.
	ContextSpec ContextSpec `json:"spec,omitempty"`
}

// ContextSpec contains objects and images.
type ContextSpec struct {
	// Objects of a cluster, as resource.get and resource.list return them.
	Resources []any `json:"resources,omitempty"`
	// Data of images, in the form that image.metadata returns. The field image is the reference that the policy uses.
	Images []any `json:"images,omitempty"`
}

// ClusterResource contains the objects of a cluster, for lookups. The field clusterResources of a Test names files of this kind.
type ClusterResource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What the cluster holds.
	Spec ClusterResourceSpec `json:"spec,omitempty"`
}

// ClusterResourceSpec contains custom kinds and objects.
type ClusterResourceSpec struct {
	// Files of CustomResourceDefinitions, relative to the ClusterResource's own file.
	CRDs []string `json:"crds,omitempty"`
	// Objects.
	Resources []any `json:"resources,omitempty"`
}
