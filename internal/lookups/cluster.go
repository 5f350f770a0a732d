package lookups

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/policy"
)

// Cluster looks up kinds, roles and namespaces, in the cache if possible.
type Cluster struct {
	*discovery.Discovery
	cached  cache.Cache
	live    client.Reader
	indexed [2]bool     // role bindings, cluster role bindings; used by one goroutine
	wanted  atomic.Bool // the role bindings are needed
	known   atomic.Bool // the role bindings are indexed
}

// NewCluster returns a Cluster without role bindings.
func NewCluster(m manager.Manager, d *discovery.Discovery) *Cluster {
	return &Cluster{Discovery: d, cached: m.GetCache(), live: m.GetAPIReader()}
}

// Bindings returns a Reconcile that starts to cache role bindings once they are needed.
func (c *Cluster) Bindings(needed func() bool) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		if c.known.Load() || !needed() {
			return 0, nil
		}
		c.wanted.Store(true)
		if err := c.indexBindings(ctx); err != nil {
			return 0, fmt.Errorf("watch role bindings: %w", err)
		}
		c.known.Store(true)
		return 0, nil
	}
}

// Ready returns the reason why requests cannot be answered yet.
func (c *Cluster) Ready() error {
	if c.wanted.Load() && !c.known.Load() {
		return errors.New("the role bindings have not been read yet")
	}
	return nil
}

// NamespaceLabels returns the labels from the cache, or from the API server if the namespace is newer than the cache. For an unknown
// namespace it returns an error.
func (c *Cluster) NamespaceLabels(ctx context.Context, namespace string) (map[string]string, error) {
	ns := intake.NamespaceObject()
	err := c.cached.Get(ctx, client.ObjectKey{Name: namespace}, ns)
	if apierrors.IsNotFound(err) {
		err = c.live.Get(ctx, client.ObjectKey{Name: namespace}, ns)
	}
	if err != nil {
		return nil, fmt.Errorf("read the labels of namespace %s: %w", namespace, err)
	}
	return ns.Labels, nil
}

// StoredUID returns the UID of an object, as the API server has it now. It is empty if there is no such object, or if this process may not read
// it.
func (c *Cluster) StoredUID(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (string, error) {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(gvk)
	if gvk.Group == "" && gvk.Kind == "Namespace" {
		namespace = "" // its requests name it as their namespace, too
	}
	err := c.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read the %s %s: %w", gvk.Kind, name, err)
	}
	return string(o.UID), nil
}

// CachedBindings returns the role bindings for a cache, each reduced to its role and subjects.
func CachedBindings() map[client.Object]cache.ByObject {
	shared := true // bindings are only read
	reduced := cache.ByObject{Transform: onlySubjects, UnsafeDisableDeepCopy: &shared}
	return map[client.Object]cache.ByObject{&rbacv1.RoleBinding{}: reduced, &rbacv1.ClusterRoleBinding{}: reduced}
}

// subjectIndex is the name of the index of bindings by subject.
const subjectIndex = "subject"

// indexBindings indexes bindings by subject, and waits until the existing ones are cached. It is called when a policy first needs
// roles, and again after a failure.
func (c *Cluster) indexBindings(ctx context.Context) error {
	for _, b := range []struct {
		object client.Object
		keys   client.IndexerFunc
		done   *bool // an index can be added only once
	}{
		{&rbacv1.RoleBinding{}, func(o client.Object) []string {
			b := o.(*rbacv1.RoleBinding)
			return subjectKeys(b.Subjects, b.Namespace)
		}, &c.indexed[0]},
		{&rbacv1.ClusterRoleBinding{}, func(o client.Object) []string {
			return subjectKeys(o.(*rbacv1.ClusterRoleBinding).Subjects, "")
		}, &c.indexed[1]},
	} {
		if !*b.done {
			if err := c.cached.IndexField(ctx, b.object, subjectIndex, b.keys); err != nil {
				return err
			}
			*b.done = true
		}
		if _, err := c.cached.GetInformer(ctx, b.object); err != nil { // waits for the first list
			return err
		}
	}
	return nil
}

func subjectKeys(subjects []rbacv1.Subject, bindingNamespace string) []string {
	keys := make([]string, 0, len(subjects))
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.UserKind:
			keys = append(keys, "user "+s.Name)
		case rbacv1.GroupKind:
			keys = append(keys, "group "+s.Name)
		case rbacv1.ServiceAccountKind:
			keys = append(keys, "user system:serviceaccount:"+cmp.Or(s.Namespace, bindingNamespace)+":"+s.Name)
		}
	}
	return keys
}

// Roles resolves the requester's roles: `namespace:name` for every RoleBinding to a Role
// in any namespace; cluster roles from ClusterRoleBindings, and from RoleBindings of the request's namespace.
func (c *Cluster) Roles(ctx context.Context, user *policy.User, namespace string) (policy.Roles, error) {
	keys := []string{"user " + user.Username}
	for _, g := range user.Groups {
		keys = append(keys, "group "+g)
	}
	var out policy.Roles
	for _, key := range keys {
		var bindings rbacv1.RoleBindingList
		if err := c.cached.List(ctx, &bindings, client.MatchingFields{subjectIndex: key}); err != nil {
			return policy.Roles{}, fmt.Errorf("list role bindings: %w", err)
		}
		for i := range bindings.Items {
			b := &bindings.Items[i]
			switch {
			case b.RoleRef.Kind == "Role":
				out.Roles = append(out.Roles, b.Namespace+":"+b.RoleRef.Name)
			case b.RoleRef.Kind == "ClusterRole" && b.Namespace == namespace:
				out.ClusterRoles = append(out.ClusterRoles, b.RoleRef.Name)
			}
		}
		var clusterBindings rbacv1.ClusterRoleBindingList
		if err := c.cached.List(ctx, &clusterBindings, client.MatchingFields{subjectIndex: key}); err != nil {
			return policy.Roles{}, fmt.Errorf("list cluster role bindings: %w", err)
		}
		for i := range clusterBindings.Items {
			out.ClusterRoles = append(out.ClusterRoles, clusterBindings.Items[i].RoleRef.Name)
		}
	}
	for _, list := range []*[]string{&out.Roles, &out.ClusterRoles} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return out, nil
}

// onlySubjects reduces a binding to its role and subjects.
func onlySubjects(obj any) (any, error) {
	if o, err := meta.Accessor(obj); err == nil {
		o.SetManagedFields(nil)
		o.SetLabels(nil)
		o.SetAnnotations(nil)
		o.SetOwnerReferences(nil)
	}
	return obj, nil
}
