package match

import (
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/policy"
)

// test tests one attribute of a filter. An error means that the result is unknown (a lookup failed); the bool is false
// then.
type test func(ctx context.Context, r *policy.Request) (bool, error)

// step is a test with its position in a filter.
type step struct {
	test test
	user bool // tests the requester, which may be unknown
	attribute
}

// filter is one entry of any or all, or the bare filter of the older form. All its steps must hold.
type filter struct {
	steps []step
	// resource, user: the filter restricts the resource, the requester.
	resource, user bool
	path           string // field path of the filter in the policy
	*authored             // nil with OnlyMatch
}

// authored is the filter as its author wrote it, for what is derived from it.
type authored struct {
	kinds       []policy.Target // the valid kind selectors
	hasKinds    bool            // the filter has kinds, valid or not
	description kyvernov1.ResourceDescription
	operations  []policy.Operation
	labels      map[string]string // matchLabels of a valid selector
	requesters  []rbacv1.Subject
	roles       []string // roles and cluster roles
}

// compileFilter orders the tests by cost: first those that compare two words, then those that walk the object, and last
// those that need a lookup.
func compileFilter(f kyvernov1.ResourceFilter, o Options, path string) filter {
	d, u := f.ResourceDescription, f.UserInfo
	if o.IgnoreOperations {
		d.Operations = nil
	}
	out := filter{resource: !d.IsZero(), user: asksUser(u), path: path, authored: &authored{hasKinds: len(d.Kinds) > 0, description: d, requesters: u.Subjects}}
	out.roles = append(append(out.roles, u.Roles...), u.ClusterRoles...)
	steps := make([]step, 0, 16)
	add := func(a attribute, t test) { steps = append(steps, step{test: t, attribute: a}) }
	addUser := func(a attribute, t test) { steps = append(steps, step{test: t, attribute: a, user: true}) }

	addNames := func() {
		if d.Name != "" {
			add(attribute{"resources.name", d.Name, gotName}, matchNames([]string{d.Name}))
		}
		if len(d.Names) > 0 {
			add(attribute{"resources.names", d.Names, gotName}, matchNames(d.Names))
		}
	}
	if o.OnlyMatch {
		addNames() // most exceptions of a rule are for other objects of the same kind
	}
	if len(d.Operations) > 0 {
		for _, o := range d.Operations {
			out.operations = append(out.operations, policy.Operation(o))
		}
		add(attribute{"resources.operations", d.Operations, gotOperation}, matchOperations(out.operations))
	}
	if len(d.Kinds) > 0 {
		for _, k := range d.Kinds {
			if t, err := ParseKind(k); err == nil {
				out.kinds = append(out.kinds, t)
			}
		}
		add(attribute{"resources.kinds", d.Kinds, gotKind}, matchKinds(out.kinds))
	}
	if len(d.Namespaces) > 0 {
		add(attribute{"resources.namespaces", d.Namespaces, gotNamespace}, matchNamespaces(d.Namespaces))
	}
	if !o.OnlyMatch {
		addNames()
	}
	if len(u.Subjects) > 0 {
		subjects := make([]subjectPattern, 0, len(u.Subjects))
		for _, s := range u.Subjects {
			if p, ok := compileSubject(s.Kind, s.Namespace, s.Name); ok {
				subjects = append(subjects, p)
			}
		}
		addUser(attribute{"subjects", u.Subjects, gotSubject}, matchSubjects(subjects))
	}
	if len(d.Annotations) > 0 {
		add(attribute{"resources.annotations", d.Annotations, gotAnnotations}, matchAnnotations(d.Annotations))
	}
	if d.Selector != nil {
		sel := compileSelector(d.Selector)
		if sel.err == nil && len(d.Selector.MatchLabels) > 0 {
			out.labels = d.Selector.MatchLabels
		}
		add(attribute{"resources.selector", d.Selector, gotLabels}, matchSelector(sel))
	}
	if d.NamespaceSelector != nil {
		add(attribute{"resources.namespaceSelector", d.NamespaceSelector, gotNamespaceLabels}, matchNamespaceSelector(compileSelector(d.NamespaceSelector), o.NamespacesPass))
	}
	if len(u.Roles) > 0 {
		addUser(attribute{"roles", u.Roles, gotRoles}, matchRoles(u.Roles))
	}
	if len(u.ClusterRoles) > 0 {
		addUser(attribute{"clusterRoles", u.ClusterRoles, gotClusterRoles}, matchClusterRoles(u.ClusterRoles))
	}
	out.steps = append(out.steps, steps...) // in the size that it needs, since exceptions may be many
	return out
}

// asksUser reports whether u restricts the requester.
func asksUser(u kyvernov1.UserInfo) bool {
	return len(u.Roles) > 0 || len(u.ClusterRoles) > 0 || len(u.Subjects) > 0
}

// matches reports whether all tests of the filter hold for the request. Without a requester, a filter of match ignores
// its tests of the requester, and does not hold if no other test remains; a filter of exclude that tests the requester
// does not hold. A test that is false decides, even after a test that failed.
func (f *filter) matches(ctx context.Context, r *policy.Request, exclude bool) (bool, error) {
	if r.User == nil && f.user && (exclude || !f.resource) {
		return false, nil
	}
	if len(f.steps) == 0 {
		return false, nil // an empty filter neither matches nor excludes
	}
	var failed error
	holds := true
	for i := range f.steps {
		s := &f.steps[i]
		if s.user && r.User == nil {
			continue
		}
		ok, err := s.test(ctx, r)
		if r.Trace != nil {
			s.traceStep(ctx, r, f.path, ok, err)
		}
		switch {
		case err != nil:
			if failed == nil {
				failed = err
			}
		case ok:
		case r.Trace == nil:
			return false, nil
		default:
			holds = false // an explanation was requested: evaluate the other steps, too
		}
	}
	if !holds {
		return false, nil
	}
	return failed == nil, failed
}

// names returns the wildcards for the object's name; nil if it is not restricted.
func (f *filter) names() []string {
	if len(f.description.Names) > 0 {
		return f.description.Names
	}
	if f.description.Name != "" {
		return []string{f.description.Name}
	}
	return nil
}

// target adds to a kind selector the other restrictions of the filter that an index can use.
func (f *filter) target(t policy.Target) policy.Target {
	t.Operations = f.operations
	t.Names = f.names()
	if len(f.description.Namespaces) > 0 {
		t.Namespaces = f.description.Namespaces
	}
	t.MatchLabels = f.labels
	return t
}

// anyKind is the target of a filter that names no kinds: every resource and subresource.
var anyKind = policy.Target{Group: "*", Version: "*", Kind: "*", Subresource: "*"}

// targets returns the kind selectors of the filter: one for everything if it has no kinds, and none if its kinds are
// invalid or if it is empty.
func (f *filter) targets() []policy.Target {
	switch {
	case len(f.steps) == 0:
		return nil
	case !f.hasKinds:
		return []policy.Target{f.target(anyKind)}
	}
	out := make([]policy.Target, len(f.kinds))
	for i, k := range f.kinds {
		out[i] = f.target(k)
	}
	return out
}

// narrow narrows targets, which come from one filter of `all`, by another filter of `all`. It does not intersect kinds
// (two selectors with wildcards have no simple intersection): the result stays a superset.
func (f *filter) narrow(targets []policy.Target) []policy.Target {
	var out []policy.Target
	for _, t := range targets {
		if len(f.operations) > 0 {
			if t.Operations == nil {
				t.Operations = f.operations
			} else {
				t.Operations = slices.DeleteFunc(slices.Clone(t.Operations), func(o policy.Operation) bool {
					return !slices.Contains(f.operations, o)
				})
				if len(t.Operations) == 0 {
					continue // no operation satisfies both filters
				}
			}
		}
		r := f.target(policy.Target{})
		if t.Names == nil {
			t.Names = r.Names
		}
		if t.Namespaces == nil {
			t.Namespaces = r.Namespaces
		}
		if t.MatchLabels == nil {
			t.MatchLabels = r.MatchLabels
		}
		out = append(out, t)
	}
	return out
}
