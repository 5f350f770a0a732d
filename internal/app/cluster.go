package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/webhookconf"
	"github.com/ephor-dev/ephor/internal/world"
)

// cluster answers admission's questions about the cluster, from the cache where it can.
type cluster struct {
	cached    cache.Cache
	live      client.Reader
	discovery *webhookconf.Discovery
	indexed   [2]bool // role bindings, cluster role bindings; used by one goroutine
}

// NamespaceLabels asks the cache, and the API server when the cache does not know the namespace: it may be newer than
// the cache. A namespace that neither knows is an error.
func (c *cluster) NamespaceLabels(ctx context.Context, namespace string) (map[string]string, error) {
	ns := namespaceObject()
	err := c.cached.Get(ctx, client.ObjectKey{Name: namespace}, ns)
	if apierrors.IsNotFound(err) {
		err = c.live.Get(ctx, client.ObjectKey{Name: namespace}, ns)
	}
	if err != nil {
		return nil, fmt.Errorf("read the labels of namespace %s: %w", namespace, err)
	}
	return ns.Labels, nil
}

// KindFor is the kind of a main resource.
func (c *cluster) KindFor(gvr schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return c.discovery.KindFor(gvr)
}

// Serves reports what the API server makes of a kind selector.
func (c *cluster) Serves(t policy.Target) (served, namespaced bool, err error) {
	found, err := c.discovery.Find(t.Group, t.Version, t.Kind, t.Subresource)
	if err != nil || len(found) == 0 {
		return false, false, err
	}
	for _, r := range found {
		if !r.Namespaced {
			return true, false, nil
		}
	}
	return true, true, nil
}

// BodyOf implements admission.Cluster.
func (c *cluster) BodyOf(kind string) []string { return c.discovery.BodyOf(kind) }

// Resources implements admission.Cluster.
func (c *cluster) Resources(t policy.Target) ([]schema.GroupVersionResource, error) {
	found, err := c.discovery.Find(t.Group, t.Version, t.Kind, t.Subresource)
	out := make([]schema.GroupVersionResource, len(found))
	for i, r := range found {
		out[i] = schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
		if r.Subresource != "" {
			out[i].Resource += "/" + r.Subresource
		}
	}
	return out, err
}

// Namespaced implements world.Kinds.
func (c *cluster) Namespaced(_ context.Context, apiVersion, kind string) (bool, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return false, err
	}
	found, err := c.discovery.Find(gv.Group, gv.Version, kind, "")
	if err != nil {
		return false, err
	}
	for _, r := range found {
		if r.Kind == kind {
			return r.Namespaced, nil
		}
	}
	return false, fmt.Errorf("paramKind kind `%s, Kind=%s` not known", apiVersion, kind)
}

// Find implements world.KindFinder.
func (c *cluster) Find(_ context.Context, apiVersion, kind string) ([]world.Kind, error) {
	group, version, named := strings.Cut(apiVersion, "/")
	switch {
	case !named && apiVersion == "*":
		group, version = "*", "*"
	case !named:
		group, version = "", apiVersion
	}
	found, err := c.discovery.Find(group, version, kind, "")
	if err != nil {
		return nil, err
	}
	var out []world.Kind
	seen := map[schema.GroupKind]bool{}
	for _, r := range found {
		gk := schema.GroupKind{Group: r.Group, Kind: r.Kind}
		if !seen[gk] {
			seen[gk] = true
			out = append(out, world.Kind{APIVersion: schema.GroupVersion{Group: r.Group, Version: r.Version}.String(), Kind: r.Kind})
		}
	}
	return out, nil
}

// subjectIndex is the name of the index of bindings by subject.
const subjectIndex = "subject"

// indexBindings makes bindings findable by subject and waits until those that exist are cached. It is called once a
// policy asks for roles, and again after it failed.
func (c *cluster) indexBindings(ctx context.Context) error {
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
func (c *cluster) Roles(ctx context.Context, user *policy.User, namespace string) (policy.Roles, error) {
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
