package match

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/wildcard"
)

// Header returns the restrictions that the blocks express with literals (policy.Header); nil if nothing is known, which
// means that Match may accept anything or fail. Wildcards, and attributes that need a lookup (roles, the labels of
// namespaces), restrict nothing here: a test that is false decides, whatever the others are, but a test that cannot be
// evaluated makes Match return an error.
func (m *Matcher) Header() *policy.Header {
	if m.match.err != nil || len(m.match.filters) == 0 {
		return nil
	}
	h := &policy.Header{Namespace: m.namespace, All: m.match.all}
	for i := range m.match.filters {
		l, _ := m.match.filters[i].literals()
		h.Filters = append(h.Filters, l)
	}
	if m.exclude.err != nil || m.exclude.all && len(m.exclude.filters) > 1 {
		return h
	}
	for i := range m.exclude.filters {
		f := &m.exclude.filters[i]
		if len(f.steps) == 0 || f.hasKinds && !m.match.within(f.description.Kinds) {
			continue
		}
		if l, exact := f.literals(); exact {
			h.Without = append(h.Without, l)
		}
	}
	return h
}

// within reports whether everything that the match block selects has one of the kinds, as far as the texts show that.
func (b *block) within(kinds []string) bool {
	for i := range b.filters {
		own := b.filters[i].description.Kinds
		covered := len(own) > 0 && coversList(kinds, own)
		if covered == b.all {
			return covered // one filter of all is enough; of any, all must be covered
		}
	}
	return !b.all
}

// literals returns the restrictions that the filter expresses with literals, except kinds. exact: the filter has no
// others. Texts that may not be safe in an expression (empty, long or not plain ASCII) do not count as literals.
func (f *filter) literals() (l policy.Literals, exact bool) {
	d := f.description
	exact = len(d.Annotations) == 0 && d.NamespaceSelector == nil && len(f.roles) == 0
	l.Operations = f.operations
	take := func(to *[]string, texts []string) {
		if len(texts) == 0 {
			return
		}
		if plain(texts) {
			*to = texts
		} else {
			exact = false
		}
	}
	take(&l.Namespaces, d.Namespaces)
	if d.Name != "" {
		take(&l.Names, []string{d.Name})
		exact = exact && len(d.Names) == 0 // in the filter both must hold, but here one is enough
	}
	take(&l.Names, d.Names)
	if d.Selector != nil {
		var ok bool
		if l.Labels, ok = requirements(d.Selector); !ok {
			exact = false
		}
	}
	if !f.subjects(&l) {
		exact = false
	}
	return l, exact
}

// subjects adds the requesters that the filter names to l; ok is false if it names some of them with wildcards.
func (f *filter) subjects(l *policy.Literals) (ok bool) {
	var users, groups []string
	for _, s := range f.requesters {
		p, known := compileSubject(s.Kind, s.Namespace, s.Name)
		text, literal := p.pattern.Literal()
		switch {
		case !known || !literal || s.Name == "" || !plain([]string{text}):
			return false
		case p.group:
			groups = append(groups, text)
		default:
			users = append(users, text)
		}
	}
	l.Users, l.Groups = users, groups
	return true
}

// requirements converts a label selector without wildcards; ok is false for other or invalid selectors.
func requirements(s *metav1.LabelSelector) (out []policy.LabelRequirement, ok bool) {
	if compileSelector(s).err != nil {
		return nil, false
	}
	for _, p := range wildcard.CompilePairs(s.MatchLabels) {
		key, literalKey := p.Key.Literal()
		value, literalValue := p.Value.Literal()
		if !literalKey || !literalValue || !plain([]string{key}) {
			return nil, false // a pair with wildcards may even fail, because of its cost
		}
		out = append(out, policy.LabelRequirement{Key: key, Operator: string(metav1.LabelSelectorOpIn), Values: []string{value}})
	}
	for _, e := range s.MatchExpressions {
		out = append(out, policy.LabelRequirement{Key: e.Key, Operator: string(e.Operator), Values: e.Values})
	}
	return out, true
}

// plain reports whether all texts have no wildcards, are not empty, and consist of printable ASCII.
func plain(texts []string) bool {
	return !slices.ContainsFunc(texts, func(s string) bool {
		if s == "" || len(s) > 512 || wildcard.Has(s) {
			return true
		}
		for i := range len(s) {
			if s[i] < ' ' || s[i] > '~' {
				return true
			}
		}
		return false
	})
}
