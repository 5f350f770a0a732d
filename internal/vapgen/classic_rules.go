package vapgen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/match"
)

// rules collects the rules of a ValidatingAdmissionPolicy: one for each group, version, scope, set of operations and set of
// names.
type rules struct {
	known discovery.Resources
	order []*admissionregistrationv1.NamedRuleWithOperations
}

func newRules(known discovery.Resources) *rules { return &rules{known: known} }

// add adds the kinds, names and operations of a filter. The namespaceSelector of the API server never exempts cluster-scoped objects other than
// Namespaces, so add leaves those out that the namespaces of the filter do not select.
func (x *rules) add(d *kyvernov1.ResourceDescription) error {
	scope := admissionregistrationv1.AllScopes
	within := len(d.Namespaces) > 0 || d.NamespaceSelector != nil
	if within {
		scope = admissionregistrationv1.NamespacedScope
	}
	if len(d.Kinds) == 0 {
		x.put("*", "*", "*", scope, d, namesOf(d))
	}
	for _, kind := range d.Kinds {
		if kind == "*" {
			x.put("*", "*", "*", scope, d, namesOf(d))
			continue
		}
		t, err := match.ParseKind(kind)
		if err != nil {
			return err
		}
		found, err := x.known.Find(t)
		if err != nil {
			return fmt.Errorf("look up the kind %s: %w", kind, err)
		}
		if len(found) == 0 {
			return fmt.Errorf("the kind %s is not served", kind)
		}
		seen := map[string]bool{} // one version is enough: the API server matches the others, too (matchPolicy)
		for _, r := range found {
			if within && !r.Namespaced && !reaches(d, r) {
				continue
			}
			name := r.Resource
			if r.Subresource != "" {
				name += "/" + r.Subresource
			}
			if key := r.Group + "/" + name; !seen[key] {
				seen[key] = true
				x.put(r.Group, r.Version, name, admissionregistrationv1.AllScopes, d, namesOf(d))
			}
			if r.Group == "" && name == "pods" && t.Subresource == "" {
				x.put(r.Group, r.Version, "pods/ephemeralcontainers", admissionregistrationv1.AllScopes, d, namesOf(d)) // as in our webhooks: a request for it changes the Pod
			}
		}
	}
	return nil
}

// reaches reports whether the namespaces of a filter select objects of a cluster-scoped resource. They are tested with an empty set of labels, except
// for Namespaces, which have a name and no labels here.
func reaches(d *kyvernov1.ResourceDescription, r discovery.Resource) bool {
	switch {
	case r.Group == "" && r.Resource == "namespaces":
		return d.NamespaceSelector == nil
	case len(d.Namespaces) > 0:
		return false
	}
	s, err := metav1.LabelSelectorAsSelector(d.NamespaceSelector)
	return err == nil && s.Matches(labels.Set{})
}

// addNamespaces adds the Namespaces that a filter names.
func (x *rules) addNamespaces(d *kyvernov1.ResourceDescription) {
	x.put("", "v1", "namespaces", admissionregistrationv1.AllScopes, d, d.Namespaces)
}

// allOperations is the default, in Kyverno's order.
var allOperations = []admissionregistrationv1.OperationType{
	admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Connect, admissionregistrationv1.Delete,
}

// operationsOf returns the operations of a filter.
func operationsOf(d *kyvernov1.ResourceDescription) []admissionregistrationv1.OperationType {
	if len(d.Operations) == 0 {
		return slices.Clone(allOperations)
	}
	out := make([]admissionregistrationv1.OperationType, len(d.Operations))
	for i, o := range d.Operations {
		out[i] = admissionregistrationv1.OperationType(o)
	}
	return out
}

// withoutRepeats returns each name once, since the API server rejects a name that is given twice.
func withoutRepeats(names []string) (out []string) {
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

func (x *rules) put(group, version, resource string, scope admissionregistrationv1.ScopeType, d *kyvernov1.ResourceDescription, names []string) {
	operations, names := operationsOf(d), withoutRepeats(names)
	i := slices.IndexFunc(x.order, func(r *admissionregistrationv1.NamedRuleWithOperations) bool {
		return r.APIGroups[0] == group && r.APIVersions[0] == version && *r.Scope == scope && slices.Equal(r.Operations, operations) && slices.Equal(r.ResourceNames, names)
	})
	if i < 0 {
		r := &admissionregistrationv1.NamedRuleWithOperations{ResourceNames: slices.Clone(names)}
		r.Operations = operations
		r.APIGroups, r.APIVersions, r.Scope = []string{group}, []string{version}, &scope
		x.order = append(x.order, r)
		i = len(x.order) - 1
	}
	if r := x.order[i]; !slices.Contains(r.Resources, resource) {
		r.Resources = append(r.Resources, resource)
		slices.Sort(r.Resources)
	}
}

// list returns the rules, sorted by group.
func (x *rules) list() []admissionregistrationv1.NamedRuleWithOperations {
	slices.SortStableFunc(x.order, func(a, b *admissionregistrationv1.NamedRuleWithOperations) int {
		return cmp.Or(strings.Compare(a.APIGroups[0], b.APIGroups[0]), strings.Compare(a.APIVersions[0], b.APIVersions[0]))
	})
	var out []admissionregistrationv1.NamedRuleWithOperations
	for _, r := range x.order {
		out = append(out, *r)
	}
	return out
}
