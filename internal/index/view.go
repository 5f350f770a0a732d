package index

import (
	"slices"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// viewKey holds the fields of a request that select candidates, apart from its bucket, names and labels.
type viewKey struct {
	group, version, sub string
	operation           policy.Operation
	origin              policy.RequestOrigin
	old                 bool // there is an old object, whose labels may count, too
	query               Query
}

// maxViews bounds the views of one bucket; in a cluster, each bucket has a few dozen.
const maxViews = 1024

func (p *bucket) view(order func(a, b *policy.Program) int, r *policy.Request, q Query) *view {
	key := viewKey{r.GVK.Group, r.GVK.Version, r.Subresource, r.EffectiveOperation(), r.Origin, r.OldObject != nil, q}
	if v := p.views.load(key); v != nil {
		return v
	}
	return p.views.add(key, maxViews, func() *view { return newView(order, p, r, q) })
}

// view is the answer for all requests of one bucket, operation, origin and query. Rules without a restriction by literal name, namespace or
// label are the base, ready to be returned. The others are indexed by their restriction, so that a lookup does not visit those that a
// request cannot match.
type view struct {
	order func(a, b *policy.Program) int
	base  []policy.Selection
	all   []policy.Selection // base and all candidates, for requests with an unreadable object

	byName      map[string][]*candidate
	byNamespace map[string][]*candidate
	byLabel     map[string]map[string][]*candidate // key, value
	filtered    []*candidate                       // restricted by wildcards or excludes: tested one by one
	unnamed     []*candidate                       // for objects without a name, by a prefix of their generateName
	asksLabels  bool                               // a candidate is restricted by labels

	reads *value.Fields // fields of the object that the rules read; nil for any
}

// newView returns the view for r and all requests with the same bucket and key.
func newView(order func(a, b *policy.Program) int, p *bucket, r *policy.Request, q Query) *view {
	v := &view{order: order}
	var always, all []ref
	for _, list := range p.entries {
		for _, e := range list {
			if !wanted(e, r, q) {
				continue
			}
			s := e.target.Compile()
			if !s.MayCover(r) {
				continue
			}
			c, unrestricted, never := newCandidate(e, s.Restriction, r, q)
			if never {
				continue
			}
			at := ref{e.program, e.rule}
			all = append(all, at)
			if unrestricted {
				always = append(always, at)
			} else {
				v.file(c)
			}
		}
	}
	v.reads = readsOf(all)
	v.base = group(order, always)
	v.all = group(order, all) // group modifies its argument
	return v
}

// readsOf returns the fields of a request's object that the rules and their exceptions read; nil if they may read any field.
func readsOf(rules []ref) *value.Fields {
	out := policy.ObjectReads(nil)
	for _, r := range rules {
		if r.rule.Object == nil {
			return nil
		}
		out.Merge(r.rule.Object)
		for _, e := range r.rule.Exceptions {
			if e.Reads == nil {
				return nil
			}
			out.Merge(e.Reads)
		}
	}
	return out
}

// wanted reports whether the query selects the entry.
func wanted(e ruleTarget, r *policy.Request, q Query) bool {
	p := e.program
	switch {
	case !q.Stages.Has(e.rule.Stage),
		q.Family != "" && p.Family != q.Family,
		r.Origin == policy.FromAdmission && !p.Settings.Admission,
		r.Origin == policy.FromScan && !p.Settings.Background,
		q.FailurePolicy == OnlyFail && p.Settings.FailurePolicy != policy.Fail,
		q.FailurePolicy == OnlyIgnore && p.Settings.FailurePolicy != policy.Ignore,
		q.SharedOnly && p.OwnWebhook(q.FixedWebhooks),
		!e.rule.IsFor(r.Payload),
		confinedTo(p) != "" && r.IsNamespace(): // a Namespace lies in no namespace
		return false
	}
	return true
}

// ref is a rule of a Program.
type ref struct {
	program *policy.Program
	rule    *policy.Rule
}

func compareRefs(order func(a, b *policy.Program) int) func(a, b ref) int {
	return func(a, b ref) int {
		if c := order(a.program, b.program); c != 0 {
			return c
		}
		return a.rule.Index - b.rule.Index
	}
}

// group sorts refs, removes duplicates (a rule may have several matching targets) and collects the rules of each Program.
func group(order func(a, b *policy.Program) int, refs []ref) []policy.Selection {
	if len(refs) == 0 {
		return nil
	}
	slices.SortFunc(refs, compareRefs(order))
	refs = slices.Compact(refs)
	rules := make([]*policy.Rule, len(refs))
	programs := 1
	for i, r := range refs {
		rules[i] = r.rule
		if i > 0 && r.program != refs[i-1].program {
			programs++
		}
	}
	out := make([]policy.Selection, 0, programs)
	start := 0
	for i := 1; i <= len(refs); i++ {
		if i == len(refs) || refs[i].program != refs[start].program {
			out = append(out, policy.Selection{Program: refs[start].program, Rules: rules[start:i:i]})
			start = i
		}
	}
	return out
}
