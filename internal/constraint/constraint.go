package constraint

import (
	"context"
	"maps"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
)

// Constraints are compiled match constraints. They are immutable and safe for concurrent use.
type Constraints struct {
	path              string // of the constraints in the object
	targets, excludes []policy.Target
	include, exclude  []policy.Selector
	everything        bool            // no rules: every resource is selected
	namespace, object labels.Selector // nil for all
	named             bool            // namespace tests only the label with the name, which needs no lookup
}

// Options are the differences between languages.
type Options struct {
	// GenerateNames: an object without a name matches resourceNames if its generateName begins one of them.
	GenerateNames bool
	// AnyOperation: the operations of the rules are ignored, because objects are selected and not requests.
	AnyOperation bool
}

// Compile compiles constraints; path is their field in the object, for the diagnostics. Use the constraints only if the diagnostics hold
// no error. Without constraints, or without rules in them, every resource is selected.
func Compile(m *admissionregistrationv1.MatchResources, path string, o Options) (*Constraints, diag.List) {
	if m == nil {
		m = &admissionregistrationv1.MatchResources{}
	}
	var diags diag.List
	c := &Constraints{path: path, everything: len(m.ResourceRules) == 0}
	exact := m.MatchPolicy != nil && *m.MatchPolicy == admissionregistrationv1.Exact
	if c.everything {
		c.targets = []policy.Target{{Group: "*", Version: "*", Resource: "*", Subresource: "*", ExactVersion: exact}}
	} else {
		c.targets = targetsOf(&diags, m.ResourceRules, path+".resourceRules", o, exact)
		checkOperations(&diags, m.ResourceRules, path+".resourceRules", !o.AnyOperation)
	}
	c.excludes = targetsOf(&diags, m.ExcludeResourceRules, path+".excludeResourceRules", o, exact)
	checkOperations(&diags, m.ExcludeResourceRules, path+".excludeResourceRules", false)
	c.namespace = selector(&diags, m.NamespaceSelector, path+".namespaceSelector")
	c.named = onlyNames(c.namespace)
	c.object = selector(&diags, m.ObjectSelector, path+".objectSelector")
	c.include, c.exclude = compile(c.targets), compile(c.excludes)
	if c.object != nil {
		selectLabels(c.targets, m.ObjectSelector)
	}
	return c, diags
}

// selectLabels adds the requirements of a selector to the targets, so that an index of policies can exclude them by label. Match evaluates
// the selector itself.
func selectLabels(targets []policy.Target, s *metav1.LabelSelector) {
	equal := maps.Clone(s.MatchLabels)
	for _, e := range s.MatchExpressions {
		if e.Operator != metav1.LabelSelectorOpIn || len(e.Values) != 1 {
			continue
		}
		if _, again := equal[e.Key]; again {
			continue // Match evaluates it
		}
		if equal == nil {
			equal = map[string]string{}
		}
		equal[e.Key] = e.Values[0]
	}
	for i := range targets {
		targets[i].MatchLabels = equal
	}
}

func selector(diags *diag.List, s *metav1.LabelSelector, path string) labels.Selector {
	if s == nil {
		return nil
	}
	out, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		diags.Errorf(path, "%v", err)
		return nil
	}
	if out.Empty() {
		return nil
	}
	return out
}

// onlyNames reports whether a namespace selector tests nothing but the label that holds the name of each Namespace.
func onlyNames(s labels.Selector) bool {
	if s == nil {
		return false
	}
	requirements, _ := s.Requirements()
	return !slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return r.Key() != corev1.LabelMetadataName })
}

func compile(targets []policy.Target) []policy.Selector {
	out := make([]policy.Selector, len(targets))
	for i := range targets {
		out[i] = targets[i].Compile()
	}
	return out
}

// Targets returns the resources of the constraints. They cover every request that Match accepts. The list is shared: do not change it.
func (c *Constraints) Targets() []policy.Target { return c.targets }

// Excludes returns the excluded resources: Match accepts no request that one of them matches. The list is shared: do not change it.
func (c *Constraints) Excludes() []policy.Target { return c.excludes }

// Labels returns the object selector in the API server's notation; empty for all.
func (c *Constraints) Labels() string {
	if c.object == nil {
		return ""
	}
	return c.object.String()
}

// Needs returns the data that Match needs beside the object.
func (c *Constraints) Needs() policy.Needs {
	return policy.Needs{NamespaceLabels: c.namespace != nil && !c.named, OldObject: c.object != nil}
}

// Match reports whether the constraints select the request. An error means that a lookup failed: the answer is unknown, and the caller
// reports the error.
func (c *Constraints) Match(ctx context.Context, r *policy.Request) (bool, error) {
	if r.Trace != nil {
		c.explain(ctx, r)
	}
	excluded, failed := anyOf(c.exclude, r)
	if excluded {
		return false, nil
	}
	included, err := anyOf(c.include, r)
	if !included && err == nil {
		return false, nil
	}
	if failed == nil {
		failed = err
	}
	for _, selects := range []func(context.Context, *policy.Request) (bool, error){c.selectsObject, c.selectsNamespace} {
		ok, err := selects(ctx, r)
		if err == nil && !ok {
			return false, nil
		}
		if failed == nil {
			failed = err
		}
	}
	return failed == nil, failed
}

// anyOf reports whether one of the selectors matches. An error means that no selector is known to match, and that one might.
func anyOf(selectors []policy.Selector, r *policy.Request) (bool, error) {
	var failed error
	for i := range selectors {
		ok, err := selectors[i].Matches(r)
		if ok {
			return true, nil
		}
		if failed == nil {
			failed = err
		}
	}
	return false, failed
}

// selectsObject evaluates the object selector: it must select the old or the new object, as in the API server.
func (c *Constraints) selectsObject(_ context.Context, r *policy.Request) (bool, error) {
	if c.object == nil {
		return true, nil
	}
	object, err := r.Object.Map()
	if err != nil {
		return false, err
	}
	if object != nil && c.object.Matches(labelsOf(object)) {
		return true, nil
	}
	old, err := r.OldObject.Map()
	if err != nil {
		return false, err
	}
	return old != nil && c.object.Matches(labelsOf(old)), nil
}

// selectsNamespace evaluates the namespace selector against a Namespace's own labels. It always selects a cluster-scoped object.
func (c *Constraints) selectsNamespace(ctx context.Context, r *policy.Request) (bool, error) {
	switch {
	case c.namespace == nil:
		return true, nil
	case r.IsNamespace():
		object, err := r.Subject()
		return c.namespace.Matches(labelsOf(object)), err
	case r.Namespace == "":
		return true, nil
	}
	if c.named { // the label that every Namespace has
		return c.namespace.Matches(labels.Set{corev1.LabelMetadataName: r.Namespace}), nil
	}
	found, err := r.NamespaceLabels(ctx)
	if found[corev1.LabelMetadataName] == "" { // every Namespace has it; data given on the command line may lack it
		found = maps.Clone(found)
		if found == nil {
			found = map[string]string{}
		}
		found[corev1.LabelMetadataName] = r.Namespace
	}
	return c.namespace.Matches(labels.Set(found)), err
}

// labelsOf returns the labels of an object.
func labelsOf(o map[string]any) decoded {
	meta, _ := o["metadata"].(map[string]any)
	in, _ := meta["labels"].(map[string]any)
	return decoded(in)
}

// decoded holds labels as they were decoded; a value that is not a string counts as empty.
type decoded map[string]any

var _ labels.Labels = decoded(nil)

func (d decoded) Has(label string) bool { _, ok := d[label]; return ok }

func (d decoded) Get(label string) string { value, _ := d.Lookup(label); return value }

func (d decoded) Lookup(label string) (string, bool) {
	v, ok := d[label]
	value, _ := v.(string)
	return value, ok
}
