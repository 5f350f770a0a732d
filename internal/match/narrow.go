package match

import (
	"slices"
	"sync"

	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/wildcard"
)

// candidate is an entry that names, namespaces or labels may exclude.
type candidate struct {
	ref
	restriction
	policyNamespace string
	excludes        []restriction
}

// restriction is what a Target says besides kinds and operations.
type restriction struct {
	names, namespaces []wildcard.Pattern // nil: not restricted
	labels            []pairPattern
}

func newRestriction(t *policy.Target) (r restriction) {
	if t.Names != nil {
		r.names = compilePatterns(t.Names)
	}
	if t.Namespaces != nil {
		r.namespaces = compilePatterns(t.Namespaces)
	}
	if restrictsNothing(r.names) {
		r.names = nil
	}
	if restrictsNothing(r.namespaces) {
		r.namespaces = nil
	}
	r.labels = compilePairs(t.MatchLabels)
	return r
}

func (r *restriction) isEmpty() bool {
	return r.names == nil && r.namespaces == nil && len(r.labels) == 0
}

// newCandidate evaluates an entry for the view of key. always: nothing restricts the entry. never: it is excluded whatever
// the object is.
func newCandidate(e entry, key viewKey) (c *candidate, always, never bool) {
	c = &candidate{ref: ref{e.program, e.rule}, restriction: newRestriction(e.target), policyNamespace: e.program.Namespace}
	// A rule may set the label that a later one selects by, so labels decide nothing while objects are being mutated.
	mutating := key.query.Stages.Has(policy.StageMutate)
	if mutating {
		c.labels = nil
	}
	for i := range e.rule.Excludes {
		x := &e.rule.Excludes[i]
		if !covers(x, key) || mutating && len(x.MatchLabels) > 0 {
			continue
		}
		r := newRestriction(x)
		if r.isEmpty() {
			return nil, false, true
		}
		c.excludes = append(c.excludes, r)
	}
	return c, c.isEmpty() && c.policyNamespace == "" && len(c.excludes) == 0, false
}

// file puts c where the most telling of its literal restrictions leads to it.
func (v *view) file(c *candidate) {
	v.asksLabels = v.asksLabels || len(c.labels) > 0 || slices.ContainsFunc(c.excludes, func(r restriction) bool { return len(r.labels) > 0 })
	put := func(m *map[string][]*candidate, keys []string) {
		if *m == nil {
			*m = map[string][]*candidate{}
		}
		for _, k := range keys {
			(*m)[k] = append((*m)[k], c)
		}
	}
	if names, ok := literals(c.names); ok {
		put(&v.byName, names)
		return
	}
	if c.policyNamespace != "" {
		put(&v.byNamespace, []string{c.policyNamespace})
		return
	}
	if namespaces, ok := literals(c.namespaces); ok {
		put(&v.byNamespace, namespaces)
		return
	}
	for _, l := range c.labels {
		key, literalKey := l.key.Literal()
		value, literalValue := l.value.Literal()
		if !literalKey || !literalValue {
			continue
		}
		if v.byLabel == nil {
			v.byLabel = map[string]map[string][]*candidate{}
		}
		values := v.byLabel[key]
		if values == nil {
			values = map[string][]*candidate{}
			v.byLabel[key] = values
		}
		values[value] = append(values[value], c)
		return
	}
	v.filtered = append(v.filtered, c)
}

// literals are the distinct texts of patterns; ok is false when there are none or one has a wildcard.
func literals(patterns []wildcard.Pattern) (texts []string, ok bool) {
	for _, p := range patterns {
		text, ok := p.Literal()
		if !ok {
			return nil, false
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts, len(texts) > 0
}

// facts is what candidates are compared with.
type facts struct {
	name, namespace, objectNamespace string
	labels                           objectMap
}

func (c *candidate) fits(f *facts) bool {
	if c.policyNamespace != "" && c.policyNamespace != f.objectNamespace {
		return false
	}
	if !c.holds(f) {
		return false
	}
	for i := range c.excludes {
		if c.excludes[i].holds(f) {
			return false
		}
	}
	return true
}

func (r *restriction) holds(f *facts) bool {
	if r.names != nil && !matchAny(r.names, f.name) {
		return false
	}
	if r.namespaces != nil && !matchAny(r.namespaces, f.namespace) {
		return false
	}
	work := 0
	ok, err := compare(r.labels, f.labels, &work)
	return ok || err != nil // Match tells the error
}

var refLists = sync.Pool{New: func() any { l := make([]ref, 0, 16); return &l }}

// lookup returns base as it is when no restricted rule fits, which is the common case and allocates nothing.
func (v *view) lookup(r *policy.Request) []policy.Selection {
	if v.byName == nil && v.byNamespace == nil && v.byLabel == nil && v.filtered == nil {
		return v.base
	}
	f := facts{objectNamespace: objectNamespace(r)}
	var err error
	if f.name, err = objectName(r); err != nil {
		return v.all // Match will tell what is wrong with the object
	}
	f.namespace = r.Namespace
	if isNamespace(r) {
		f.namespace = f.name
	}
	if v.asksLabels { // else the object need not even be decoded
		labels, err := objectLabels(r)
		if err != nil {
			return v.all
		}
		f.labels = labels
	}

	list := refLists.Get().(*[]ref)
	hits := (*list)[:0]
	visit := func(cs []*candidate) {
		for _, c := range cs {
			if c.fits(&f) {
				hits = append(hits, c.ref)
			}
		}
	}
	visit(v.byName[f.name])
	visit(v.byNamespace[f.namespace])
	if len(v.byLabel) <= len(f.labels) {
		for key, values := range v.byLabel {
			if value, ok := f.labels.Lookup(key); ok {
				visit(values[value])
			}
		}
	} else {
		for key, value := range f.labels {
			s, _ := value.(string)
			visit(v.byLabel[key][s])
		}
	}
	visit(v.filtered)

	out := v.base
	if len(hits) > 0 {
		out = v.merge(hits)
	}
	clear(hits)
	*list = hits[:0]
	refLists.Put(list)
	return out
}

// merge joins base and hits in order.
func (v *view) merge(hits []ref) []policy.Selection {
	if len(v.base) == 0 {
		return group(v.order, hits)
	}
	for _, s := range v.base {
		for _, rule := range s.Rules {
			hits = append(hits, ref{s.Program, rule})
		}
	}
	return group(v.order, hits)
}
