package index

import (
	"slices"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/wildcard"
)

// candidate is an entry that the name, namespace or labels of a request may exclude.
type candidate struct {
	ref
	policy.Restriction
	policyNamespace string
	excludes        []policy.Restriction
}

// newCandidate evaluates an entry for the view of r. always: the entry has no restriction. never: it matches no object.
func newCandidate(e ruleTarget, restriction policy.Restriction, r *policy.Request, q Query) (c *candidate, always, never bool) {
	c = &candidate{ref: ref{e.program, e.rule}, Restriction: restriction, policyNamespace: confinedTo(e.program)}
	// A rule may set a label that a later rule selects, so labels exclude nothing during mutation. Nor do they if the labels of the old
	// object count, too, since it is decoded for few rules.
	mutating := q.Stages.Has(policy.StageMutate)
	old := r.OldObject != nil
	if mutating || c.OldLabels && old {
		c.Labels = nil
	}
	for i := range e.rule.Excludes {
		x := e.rule.Excludes[i].Compile()
		if !x.Covers(r) || len(x.Labels) > 0 && (mutating || x.OldLabels && old) {
			continue
		}
		if x.IsEmpty() {
			return nil, false, true
		}
		c.excludes = append(c.excludes, x.Restriction)
	}
	return c, c.IsEmpty() && c.policyNamespace == "" && len(c.excludes) == 0, false
}

// file adds c to the map of its most selective literal restriction.
func (v *view) file(c *candidate) {
	v.asksLabels = v.asksLabels || len(c.Labels) > 0 || slices.ContainsFunc(c.excludes, func(r policy.Restriction) bool { return len(r.Labels) > 0 })
	put := func(m *map[string][]*candidate, keys []string) {
		if *m == nil {
			*m = map[string][]*candidate{}
		}
		for _, k := range keys {
			(*m)[k] = append((*m)[k], c)
		}
	}
	if names, ok := literals(c.Names); ok {
		put(&v.byName, names)
		if c.Prefix {
			v.unnamed = append(v.unnamed, c)
		}
		return
	}
	if c.policyNamespace != "" {
		put(&v.byNamespace, []string{c.policyNamespace})
		return
	}
	if namespaces, ok := literals(c.Namespaces); ok {
		put(&v.byNamespace, namespaces)
		return
	}
	for _, l := range c.Labels {
		key, literalKey := l.Key.Literal()
		value, literalValue := l.Value.Literal()
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

// literals returns the distinct texts of patterns; ok is false if there are none or if one has a wildcard.
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

func (c *candidate) fits(f *policy.Facts, objectNamespace string) bool {
	if c.policyNamespace != "" && c.policyNamespace != objectNamespace {
		return false
	}
	if !mayMatch(&c.Restriction, f) {
		return false
	}
	for i := range c.excludes {
		if mayMatch(&c.excludes[i], f) {
			return false
		}
	}
	return true
}

// mayMatch reports whether the restriction matches. It returns true for a failed lookup: Match then returns the error.
func mayMatch(r *policy.Restriction, f *policy.Facts) bool {
	ok, err := r.MatchesFacts(f)
	return ok || err != nil
}

// lookup returns base unchanged if no restricted rule matches, which is the common case and does not allocate.
func (v *view) lookup(r *policy.Request) []policy.Selection {
	if v.byName == nil && v.byNamespace == nil && v.byLabel == nil && v.filtered == nil {
		return v.base
	}
	f, err := policy.FactsOf(r, v.asksLabels) // if labels do not matter, the object is not decoded
	if err != nil || f.OddLabels {
		return v.all // Match returns the error of the object
	}
	objectNamespace := r.ObjectNamespace()

	var hits []ref
	visit := func(cs []*candidate) {
		for _, c := range cs {
			if c.fits(&f, objectNamespace) {
				hits = append(hits, c.ref)
			}
		}
	}
	visit(v.byName[f.Name])
	if f.Unnamed {
		visit(v.unnamed)
	}
	visit(v.byNamespace[f.Namespace])
	if len(v.byLabel) <= len(f.Labels) {
		for key, values := range v.byLabel {
			if value, ok := f.Labels.Lookup(key); ok {
				visit(values[value])
			}
		}
	} else {
		for key, value := range f.Labels {
			s, _ := value.(string)
			visit(v.byLabel[key][s])
		}
	}
	visit(v.filtered)

	out := v.base
	if len(hits) > 0 {
		out = v.merge(hits)
	}
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

// confinedTo returns the namespace that the policy is confined to; empty for all namespaces.
func confinedTo(p *policy.Program) string {
	if p.Unconfined {
		return ""
	}
	return p.Namespace
}
