package match

import (
	"context"
	"errors"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/wildcard"
)

// Matcher holds the compiled match and exclude blocks of one rule. It is immutable and safe for concurrent use.
type Matcher struct {
	namespace      string // of the policy; empty for cluster-scoped policies
	match, exclude block
	targets        []policy.Target
	excludes       []policy.Target
	needs          policy.Needs
	steps          int // see Steps
}

// block is a match or an exclude block.
type block struct {
	filters []filter
	all     bool  // every filter must hold; otherwise one is enough
	err     error // the block is invalid: matching is an error
}

// Compile compiles the match block m and the exclude block ex (nil if the rule has none). policyNamespace is the
// namespace of a namespaced policy, which sees only its own namespace; path is the field path of the rule, such as
// spec.rules[0]. Compile always returns a Matcher; if the diagnostics contain errors that make a block ambiguous or
// unusable, its Match returns an error.
func Compile(m kyvernov1.MatchResources, ex *kyvernov1.MatchResources, policyNamespace, path string) (*Matcher, diag.List) {
	return CompileWith(m, ex, policyNamespace, path, Options{})
}

// Options are the differences in how objects other than policies interpret their match blocks.
type Options struct {
	// IgnoreOperations: operations in filters are ignored (exceptions).
	IgnoreOperations bool
	// NamespacesPass: a namespaceSelector does not restrict objects of kind Namespace, instead of never matching them
	// (exceptions, cleanup).
	NamespacesPass bool
	// OnlyMatch: the Matcher has no Targets, Excludes and Header, so that it takes less memory (exceptions, which may be many).
	OnlyMatch bool
	// Subject is the name of the blocks' owner in diagnostics; empty stands for Rule.
	Subject string
}

// CompileWith is Compile with options.
func CompileWith(m kyvernov1.MatchResources, ex *kyvernov1.MatchResources, policyNamespace, path string, o Options) (*Matcher, diag.List) {
	out := &Matcher{namespace: policyNamespace, match: compileBlock(m, o, path+".match")}
	if ex != nil {
		out.exclude = compileBlock(*ex, o, path+".exclude")
	}
	if !o.OnlyMatch {
		out.targets, out.excludes = out.match.targets(), out.exclude.certain()
	}
	for _, b := range []*block{&out.match, &out.exclude} {
		for i := range b.filters {
			f := &b.filters[i]
			out.needs.User = out.needs.User || f.user
			if f.description.NamespaceSelector != nil {
				out.needs.NamespaceLabels = true
			}
			if o.OnlyMatch {
				f.authored = nil
			}
		}
	}
	for _, f := range allFilters(m, ex) {
		if len(f.Roles) > 0 || len(f.ClusterRoles) > 0 {
			out.needs.Roles = true
		}
	}
	out.steps = stepsOf(allFilters(m, ex))
	return out, check(m, ex, policyNamespace, path, o.Subject)
}

func allFilters(m kyvernov1.MatchResources, ex *kyvernov1.MatchResources) []kyvernov1.ResourceFilter {
	filters, _, _ := filtersOf(m)
	if ex != nil {
		more, _, _ := filtersOf(*ex)
		filters = append(filters[:len(filters):len(filters)], more...)
	}
	return filters
}

// ErrMixed is the error for a block that mixes forms.
var ErrMixed = errors.New("any, all and a bare filter cannot be combined")

// filtersOf returns the filters of a block, whether all of them must hold, and an error if the block mixes the forms.
func filtersOf(m kyvernov1.MatchResources) (filters []kyvernov1.ResourceFilter, all bool, err error) {
	bare := kyvernov1.ResourceFilter{UserInfo: m.UserInfo, ResourceDescription: m.ResourceDescription}
	hasBare := asksUser(bare.UserInfo) || !bare.ResourceDescription.IsZero()
	switch {
	case len(m.Any) > 0 && len(m.All) > 0, hasBare && len(m.Any)+len(m.All) > 0:
		err = ErrMixed
	}
	filters = append(filters, m.Any...)
	filters = append(filters, m.All...)
	if hasBare {
		filters = append(filters, bare)
	}
	return filters, len(m.All) > 0, err
}

func compileBlock(m kyvernov1.MatchResources, o Options, path string) block {
	filters, all, err := filtersOf(m)
	b := block{all: all && err == nil, err: err}
	for i, f := range filters {
		at := path
		switch {
		case i < len(m.Any):
			at += ".any[" + strconv.Itoa(i) + "]"
		case i < len(m.Any)+len(m.All):
			at += ".all[" + strconv.Itoa(i-len(m.Any)) + "]"
		}
		b.filters = append(b.filters, compileFilter(f, o, at))
	}
	return b
}

// Match reports whether the rule applies to the request: the request is in the policy's namespace, the match block
// selects it and the exclude block does not. An error means that the result is unknown: roles or namespace labels could
// not be looked up, the object could not be read, or a block is invalid. The caller reports the error. A certain result
// takes precedence over a failed lookup: a request that is excluded, or not selected, whatever the lookup returns does
// not match.
func (m *Matcher) Match(ctx context.Context, r *policy.Request) (bool, error) {
	if m.namespace != "" && r.ObjectNamespace() != m.namespace {
		return false, nil
	}
	ok, err := m.match.matches(ctx, r, false)
	if !ok && err == nil || m.match.err != nil {
		return false, err
	}
	if len(m.exclude.filters) > 0 {
		excluded, failed := m.exclude.matches(ctx, r, true)
		if excluded {
			return false, nil
		}
		if err == nil {
			err = failed
		}
	}
	return err == nil, err
}

func (b *block) matches(ctx context.Context, r *policy.Request, exclude bool) (bool, error) {
	if b.err != nil {
		return false, b.err
	}
	var failed error
	for i := range b.filters {
		ok, err := b.filters[i].matches(ctx, r, exclude)
		switch {
		case err != nil:
			if failed == nil {
				failed = err
			}
		case ok != b.all:
			return ok, nil // the first true decides any, the first false decides all
		}
	}
	return failed == nil && b.all && len(b.filters) > 0, failed
}

// Targets returns the kind selectors of the match block, each with its filter's operations and literal restrictions.
// They cover every request that Match can accept; they ignore the exclude block. The list is shared: do not change it.
func (m *Matcher) Targets() []policy.Target { return m.targets }

// Excludes returns the filters of the exclude block that depend only on kinds, operations, names, namespaces and
// literal labels: Match accepts no request that one of them covers. The list is shared: do not change it.
func (m *Matcher) Excludes() []policy.Target { return m.excludes }

// Steps returns the value for policy.Rule.MatchSteps.
func (m *Matcher) Steps() int { return m.steps }

// fewTexts is the number of texts that a match block may compare without being charged. People write a few dozen.
const fewTexts = 64

// stepsOf counts the texts that filters compare, if they are many or their cost depends on the object.
func stepsOf(filters []kyvernov1.ResourceFilter) int {
	texts, counted := 0, false
	for i := range filters {
		f, u := &filters[i].ResourceDescription, &filters[i].UserInfo
		texts += len(f.Kinds) + len(f.Names) + len(f.Namespaces) + len(f.Operations) + len(f.Annotations) + len(u.Subjects) + len(u.Roles) + len(u.ClusterRoles)
		counted = counted || len(f.Annotations) > 0
		for _, s := range []*metav1.LabelSelector{f.Selector, f.NamespaceSelector} {
			if s == nil {
				continue
			}
			texts += len(s.MatchLabels)
			for k, v := range s.MatchLabels {
				counted = counted || wildcard.Has(k) || wildcard.Has(v)
			}
			for _, e := range s.MatchExpressions {
				texts += 1 + len(e.Values)
			}
		}
	}
	if !counted && texts <= fewTexts {
		return 0
	}
	return stepsPerText * texts
}

// stepsPerText is the maximum cost of comparing a text with a name.
const stepsPerText = 4

// Needs returns the data that Match needs in addition to the object: the requester, roles, the labels of the namespace.
func (m *Matcher) Needs() policy.Needs { return m.needs }

func (b *block) targets() []policy.Target {
	if !b.all {
		var out []policy.Target
		for i := range b.filters {
			out = append(out, b.filters[i].targets()...)
		}
		return out
	}
	// Every filter of `all` must hold, so the kinds of one are enough: those of the first filter that has kinds.
	first := 0
	for i := range b.filters {
		if b.filters[i].hasKinds {
			first = i
			break
		}
	}
	out := b.filters[first].targets()
	for i := range b.filters {
		switch {
		case len(b.filters[i].steps) == 0:
			return nil // an empty filter never holds
		case i != first:
			out = b.filters[i].narrow(out)
		}
	}
	return out
}

// certain returns the filters of an exclude block that a Target expresses completely.
func (b *block) certain() []policy.Target {
	if b.err != nil || b.all && len(b.filters) > 1 {
		return nil
	}
	var out []policy.Target
	for i := range b.filters {
		f := &b.filters[i]
		d := f.description
		if f.user || len(d.Annotations) > 0 || d.NamespaceSelector != nil || d.Name != "" && len(d.Names) > 0 ||
			d.Selector != nil && (len(d.Selector.MatchExpressions) > 0 || f.labels == nil) {
			continue
		}
		out = append(out, f.targets()...)
	}
	return out
}
