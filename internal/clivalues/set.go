package clivalues

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/api/cli/v1alpha1"
	"ephor.invalid/ephor/internal/policy"
)

// Set holds all values that the user gave for one run. It is immutable and safe for concurrent use; the nil Set is empty.
type Set struct {
	global       map[string]any // a tree, see the function tree
	assigned     map[string]any // a tree
	policies     map[string]*policyValues
	namespaces   map[string]map[string]string
	objects      []map[string]any // whole Namespaces
	subresources map[schema.GroupVersionKind]Subresource
	user         *policy.User
	roles        policy.Roles
}

type policyValues struct {
	resources map[string]map[string]any // trees by name
	rules     map[string]*ruleValues
}

type ruleValues struct {
	names    map[string]any // tree
	elements []map[string]any
	element  map[string]any // the values of element and elementIndex for every element
}

// Subresource describes a kind that is a subresource by its parent.
type Subresource struct {
	Parent   schema.GroupVersionKind
	Resource string // of the parent: deployments
	Name     string // scale
}

// New returns the Set of a values file (nil for none) and of assignments, which override it.
func New(values *v1alpha1.ValuesSpec, assigned map[string]any) *Set {
	s := &Set{
		assigned: tree(assigned), policies: map[string]*policyValues{},
		namespaces: map[string]map[string]string{}, subresources: map[schema.GroupVersionKind]Subresource{},
	}
	if values == nil {
		return s
	}
	s.global = tree(values.GlobalValues)
	for _, p := range values.Policies {
		s.addPolicy(p)
	}
	for _, n := range values.NamespaceSelectors {
		s.namespaces[n.Name] = n.Labels
	}
	for i := range values.Namespaces {
		n := &values.Namespaces[i]
		s.namespaces[n.Name] = n.Labels
		s.objects = append(s.objects, namespaceObject(n))
	}
	for _, r := range values.Subresources {
		resource, name, _ := strings.Cut(r.Subresource.Name, "/")
		s.subresources[schema.GroupVersionKind{Group: r.Subresource.Group, Version: r.Subresource.Version, Kind: r.Subresource.Kind}] = Subresource{
			Parent:   schema.GroupVersionKind{Group: r.ParentResource.Group, Version: r.ParentResource.Version, Kind: r.ParentResource.Kind},
			Resource: resource, Name: name,
		}
	}
	return s
}

// addPolicy adds the values of one entry. It ignores the policy's namespace.
func (s *Set) addPolicy(p v1alpha1.PolicyValues) {
	name := p.Name[strings.LastIndexByte(p.Name, '/')+1:]
	out := s.policies[name]
	if out == nil {
		out = &policyValues{resources: map[string]map[string]any{}, rules: map[string]*ruleValues{}}
		s.policies[name] = out
	}
	for _, r := range p.Resources {
		out.resources[r.Name] = tree(r.Values)
	}
	for _, r := range p.Rules {
		names := tree(r.Values)
		rule := &ruleValues{names: names, element: map[string]any{}}
		for k, v := range names {
			if strings.HasPrefix(k, "element") {
				rule.element[k] = v
			}
		}
		rule.setElements(r.ForeachValues)
		out.rules[r.Name] = rule
	}
}

// setElements converts lists of values into values for the elements.
func (r *ruleValues) setElements(lists map[string][]any) {
	n := 0
	for _, l := range lists {
		n = max(n, len(l))
	}
	for i := range n {
		at := map[string]any{}
		for k, l := range lists {
			if i < len(l) {
				at[k] = l[i]
			}
		}
		r.elements = append(r.elements, tree(at))
	}
}

// SetUser makes u the user of all requests.
func (s *Set) SetUser(u *v1alpha1.UserInfo) {
	info := u.AdmissionUserInfo
	s.user = &policy.User{Username: info.Username, UID: info.UID, Groups: info.Groups}
	if len(info.Extra) > 0 {
		s.user.Extra = make(map[string][]string, len(info.Extra))
		for k, v := range info.Extra {
			s.user.Extra[k] = v
		}
	}
	s.roles = policy.Roles{Roles: u.Roles, ClusterRoles: u.ClusterRoles}
}

// User returns the requester with its roles; nil if none was given.
func (s *Set) User() (*policy.User, policy.Roles) {
	if s == nil {
		return nil, policy.Roles{}
	}
	return s.user, s.roles
}

// Namespaces returns the labels of the given namespaces.
func (s *Set) Namespaces() map[string]map[string]string {
	if s == nil {
		return nil
	}
	return s.namespaces
}

// Objects returns the Namespaces that were given as whole objects, for a simulated cluster.
func (s *Set) Objects() []map[string]any {
	if s == nil {
		return nil
	}
	return s.objects
}

// namespaceObject is a Namespace as a decoded object.
func namespaceObject(n *corev1.Namespace) map[string]any {
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(n)
	if err != nil { // a typed Namespace always converts; its name and labels are what matters
		o = map[string]any{"metadata": map[string]any{"name": n.Name}}
	}
	o["apiVersion"], o["kind"] = "v1", "Namespace"
	if meta, ok := o["metadata"].(map[string]any); ok && meta["creationTimestamp"] == nil {
		delete(meta, "creationTimestamp")
	}
	return o
}

// Subresource returns the parent and name of the subresource whose objects have the kind gvk.
func (s *Set) Subresource(gvk schema.GroupVersionKind) (Subresource, bool) {
	if s == nil {
		return Subresource{}, false
	}
	r, ok := s.subresources[gvk]
	return r, ok
}

// HasValues reports whether any variable has a value, so that policies must be evaluated one by one.
func (s *Set) HasValues() bool {
	return s != nil && (len(s.global) > 0 || len(s.assigned) > 0 || len(s.policies) > 0)
}
