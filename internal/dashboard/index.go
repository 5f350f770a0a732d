package dashboard

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"unique"

	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/value"
)

// The limits of the index, whatever the reports contain.
const (
	maxBytes  = 64 << 20
	maxName   = 512 // bytes of a name
	perEntry  = 220 // bytes of an entry in addition to its names and results
	perResult = 9
	perRule   = 200 // bytes of a rule in addition to its names
)

// reportKey identifies a report. The namespace is empty for cluster-scoped reports. Rights depend on this key, since a report may name
// any resource.
type reportKey struct{ namespace, name string }

// identity identifies the resource of a result.
type identity struct{ policy, rule, severity, category, source string }

// size returns the approximate memory of the identity, which results share.
func (i identity) size() int {
	return perRule + len(i.policy) + len(i.rule) + len(i.severity) + len(i.category) + len(i.source)
}

// resourceResults is the state that is stored of a report for one resource: the result of each rule, without messages. It is immutable.
type resourceResults struct {
	report    reportKey
	namespace unique.Handle[string] // of the resource
	kind      unique.Handle[string]
	name      string
	rules     []unique.Handle[identity]
	statuses  []status // for each rule
}

// size returns the approximate memory of the entry, without the rules.
func (e *resourceResults) size() int {
	names := len(e.report.namespace) + len(e.report.name) + len(e.namespace.Value()) + len(e.kind.Value()) + len(e.name)
	return perEntry + names + perResult*len(e.rules)
}

// about reports whether the entry is for this resource.
func (e *resourceResults) about(r compliance.Resource) bool {
	return short(r.Name) == e.name && short(r.Kind) == e.kind.Value() && short(r.Namespace) == e.namespace.Value()
}

// sort holds the common fields of results that differ only in the names of their resources. There are a hundred times fewer sorts than
// results.
type sort struct {
	namespace, kind unique.Handle[string]
	rule            unique.Handle[identity]
	status          status
}

// result returns a result of the sort in the form of package compliance.
func (s sort) result() compliance.Result {
	id := s.rule.Value()
	return compliance.Result{
		Policy: id.policy, Rule: id.rule, Severity: id.severity, Category: id.category, Source: id.source, Result: s.status.word(),
		Resource: compliance.Resource{Kind: s.kind.Value(), Namespace: s.namespace.Value()},
	}
}

// entriesOf returns the entries of a report: usually one, since our reports have one resource each.
func entriesOf(r compliance.Report) []*resourceResults {
	var out []*resourceResults
	byResource := map[compliance.Resource]*resourceResults{}
	for i := range r.Results {
		res := &r.Results[i]
		about := compliance.Resource{Kind: res.Resource.Kind, Namespace: res.Resource.Namespace, Name: res.Resource.Name}
		e := byResource[about]
		if e == nil {
			e = &resourceResults{
				report: reportKey{short(r.Namespace), short(r.Name)}, namespace: unique.Make(short(about.Namespace)), kind: unique.Make(short(about.Kind)),
				name: short(about.Name), rules: make([]unique.Handle[identity], 0, len(r.Results)), statuses: make([]status, 0, len(r.Results)),
			}
			byResource[about] = e
			out = append(out, e)
		}
		e.rules = append(e.rules, unique.Make(identity{short(res.Policy), short(res.Rule), res.Severity, short(res.Category), short(res.Source)}))
		e.statuses = append(e.statuses, statusOf(res.Result))
	}
	return out
}

// short returns a copy of a name that keeps no larger text in memory. It truncates names that are too long to be valid.
func short(name string) string { return strings.Clone(value.Clip(name, maxName)) }

// index is the state of all reports. It is safe for concurrent use.
type index struct {
	mu      sync.RWMutex
	reports map[reportKey][]*resourceResults
	rules   map[unique.Handle[identity]]int // with the number of their results
	bytes   int
	limit   int           // of bytes
	full    map[bool]bool // there was no room for a report since the last list, by whether it is cluster-scoped
}

func newIndex() *index {
	return &index{reports: map[reportKey][]*resourceResults{}, rules: map[unique.Handle[identity]]int{}, limit: maxBytes, full: map[bool]bool{}}
}

// put adds or replaces a report.
func (x *index) put(k reportKey, entries []*resourceResults) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(k)
	x.reports[k] = entries
	x.count(entries, 1)
	if x.bytes > x.limit {
		x.drop(k)
		x.full[k.namespace == ""] = true
	}
}

// count adds the memory of a report, or with -1 removes it.
func (x *index) count(entries []*resourceResults, sign int) {
	x.bytes += sign * perEntry
	for _, e := range entries {
		x.bytes += sign * e.size()
		for _, rule := range e.rules {
			n := x.rules[rule]
			if x.rules[rule] = n + sign; n == 0 || n+sign == 0 { // its first result, or its last one
				x.bytes += sign * rule.Value().size()
			}
			if n+sign == 0 {
				delete(x.rules, rule)
			}
		}
	}
}

// remove removes a deleted report.
func (x *index) remove(k reportKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(k)
}

func (x *index) drop(k reportKey) {
	if old, ok := x.reports[k]; ok {
		delete(x.reports, k)
		x.count(old, -1)
	}
}

// begin marks the start of a new list of the reports of one of the two kinds.
func (x *index) begin(cluster bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.full, cluster)
}

// retain removes the reports of one of the two kinds that are no longer listed.
func (x *index) retain(cluster bool, listed map[reportKey]bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for k := range x.reports {
		if (k.namespace == "") == cluster && !listed[k] {
			x.drop(k)
		}
	}
}

// state returns the number of reports, and whether some were left out for lack of room.
func (x *index) state() (reports int, full bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.reports), len(x.full) > 0
}

// namespaces returns the namespaces with reports, sorted.
func (x *index) namespaces() []string {
	seen := map[string]bool{}
	x.mu.RLock()
	for k := range x.reports {
		if k.namespace != "" {
			seen[k.namespace] = true
		}
	}
	x.mu.RUnlock()
	out := make([]string, 0, len(seen))
	for ns := range seen {
		out = append(out, ns)
	}
	slices.Sort(out)
	return out
}

// summary returns the results of a query.
func (x *index) summary(q *query) compliance.Summary {
	sorts, looked := map[sort]int{}, 0
	x.mu.RLock()
	for k, entries := range x.reports {
		if !q.sees(k.namespace) {
			continue
		}
		looked++
		for _, e := range entries {
			if !q.wantsResource(e) {
				continue
			}
			for i, rule := range e.rules {
				sorts[sort{e.namespace, e.kind, rule, e.statuses[i]}]++
			}
		}
	}
	x.mu.RUnlock()
	c := compliance.New(compliance.Options{Filter: q.filter})
	for one, n := range sorts {
		if r := one.result(); q.wants(&r) {
			c.Count(r, n)
		}
	}
	s := c.Summary(nil) // only reports that may be shown were counted
	s.Reports = looked
	return s
}

// totals counts the results of each namespace of reports.
func (x *index) totals() map[string]tally {
	out := map[string]tally{}
	x.mu.RLock()
	defer x.mu.RUnlock()
	for k, entries := range x.reports {
		t := out[k.namespace]
		for _, e := range entries {
			for _, s := range e.statuses {
				t[s]++
			}
		}
		out[k.namespace] = t
	}
	return out
}

// find returns the entries with results for a query, sorted by resource, and the number of these results.
func (x *index) find(q *query) (found []*resourceResults, results int) {
	sorts := map[sort]bool{}
	wants := func(one sort) bool {
		yes, known := sorts[one]
		if !known {
			r := one.result()
			yes = q.wants(&r)
			sorts[one] = yes
		}
		return yes
	}
	x.mu.RLock()
	for k, entries := range x.reports {
		if !q.sees(k.namespace) {
			continue
		}
		for _, e := range entries {
			if !q.wantsResource(e) {
				continue
			}
			before := results
			for i, rule := range e.rules {
				if wants(sort{e.namespace, e.kind, rule, e.statuses[i]}) {
					results++
				}
			}
			if results > before {
				found = append(found, e)
			}
		}
	}
	x.mu.RUnlock()
	slices.SortFunc(found, func(a, b *resourceResults) int { return a.position().compare(b.position()) })
	return found, results
}

// position is the position of an entry in the results, from which the page can continue.
type position struct {
	Namespace       string `json:"namespace"`
	Kind            string `json:"kind"`
	Name            string `json:"name"`
	ReportNamespace string `json:"reportNamespace"`
	Report          string `json:"report"`
}

func (e *resourceResults) position() position {
	return position{e.namespace.Value(), e.kind.Value(), e.name, e.report.namespace, e.report.name}
}

func (p position) compare(o position) int {
	return cmp.Or(
		cmp.Compare(p.Namespace, o.Namespace), cmp.Compare(p.Kind, o.Kind), cmp.Compare(p.Name, o.Name),
		cmp.Compare(p.ReportNamespace, o.ReportNamespace), cmp.Compare(p.Report, o.Report),
	)
}
