package remote

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"ephor.invalid/ephor/internal/policy"
)

// The roles of a user are complete although the list of bindings outlives its token.
func TestRolesAfterAnExpiredToken(t *testing.T) {
	c := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"): "ClusterRoleBindingList",
		rbacv1.SchemeGroupVersion.WithResource("rolebindings"):        "RoleBindingList",
	})
	requests := 0 // the fake client passes no tokens on
	c.PrependReactor("list", "clusterrolebindings", func(clienttesting.Action) (bool, runtime.Object, error) {
		requests++
		page, role := &unstructured.UnstructuredList{}, "viewer"
		page.SetAPIVersion("rbac.authorization.k8s.io/v1")
		page.SetKind("ClusterRoleBindingList")
		switch requests {
		case 1:
			page.SetContinue("token")
		case 2:
			status := apierrors.NewResourceExpired("The provided continue parameter is too old").Status()
			status.ListMeta = metav1.ListMeta{Continue: "rest"}
			return true, nil, &apierrors.StatusError{ErrStatus: status}
		case 3:
			role = "editor"
		}
		page.Items = []unstructured.Unstructured{{Object: map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": role},
			"subjects": []any{map[string]any{"kind": "User", "name": "jo"}},
			"roleRef":  map[string]any{"kind": "ClusterRole", "name": role},
		}}}
		return true, page, nil
	})
	roles, err := NewRoles(&Cluster{Dynamic: c}).Of(t.Context(), &policy.User{Username: "jo"}, "shop")
	if want := []string{"editor", "viewer"}; err != nil || !slices.Equal(roles.ClusterRoles, want) {
		t.Errorf("%q, %v; want %q", roles.ClusterRoles, err, want)
	}
}
