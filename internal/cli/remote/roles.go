package remote

import (
	"context"
	"fmt"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/policy"
)

// Roles looks up the roles of users in the bindings of a cluster. It reads the bindings once.
type Roles struct {
	cluster *Cluster
	once    sync.Once
	bound   map[string][]binding // by user or group
	err     error
}

// binding is a role that a binding grants to its subjects.
type binding struct {
	namespace string // empty for a ClusterRoleBinding
	role      rbacv1.RoleRef
}

// NewRoles returns the Roles of a cluster.
func NewRoles(c *Cluster) *Roles { return &Roles{cluster: c} }

// Of returns the roles of a user for requests in the namespace, as the admission controller determines them: Roles of any
// namespace, and ClusterRoles from a ClusterRoleBinding or from a RoleBinding in the namespace of the request.
func (r *Roles) Of(ctx context.Context, user *policy.User, namespace string) (policy.Roles, error) {
	r.once.Do(func() { r.bound, r.err = r.read(context.WithoutCancel(ctx)) })
	if r.err != nil {
		return policy.Roles{}, r.err
	}
	var out policy.Roles
	keys := []string{"user " + user.Username}
	for _, g := range user.Groups {
		keys = append(keys, "group "+g)
	}
	for _, key := range keys {
		for _, b := range r.bound[key] {
			switch {
			case b.namespace == "", b.role.Kind == "ClusterRole" && b.namespace == namespace:
				out.ClusterRoles = append(out.ClusterRoles, b.role.Name)
			case b.role.Kind == "Role":
				out.Roles = append(out.Roles, b.namespace+":"+b.role.Name)
			}
		}
	}
	for _, list := range []*[]string{&out.Roles, &out.ClusterRoles} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return out, nil
}

func (r *Roles) read(ctx context.Context) (map[string][]binding, error) {
	out := map[string][]binding{}
	for _, resource := range []string{"rolebindings", "clusterrolebindings"} {
		list := r.cluster.Dynamic.Resource(schema.GroupVersionResource{Group: rbacv1.GroupName, Version: "v1", Resource: resource})
		_, err := controller.Pages(ctx, metav1.ListOptions{Limit: PageSize}, list.List, func(page *unstructured.UnstructuredList) error {
			for i := range page.Items {
				var b rbacv1.RoleBinding // a ClusterRoleBinding has the same fields
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(page.Items[i].Object, &b); err != nil {
					return err
				}
				for _, s := range b.Subjects {
					key := subjectKey(s, b.Namespace)
					out[key] = append(out[key], binding{b.Namespace, b.RoleRef})
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resource, err)
		}
	}
	return out, nil
}

// subjectKey returns the key of a subject in Roles. A ServiceAccount without a namespace is of the namespace of the binding.
func subjectKey(s rbacv1.Subject, namespace string) string {
	switch s.Kind {
	case rbacv1.GroupKind:
		return "group " + s.Name
	case rbacv1.ServiceAccountKind:
		if s.Namespace != "" {
			namespace = s.Namespace
		}
		return "user system:serviceaccount:" + namespace + ":" + s.Name
	}
	return "user " + s.Name
}
