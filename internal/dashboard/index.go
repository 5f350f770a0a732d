package dashboard

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"unique"

	"github.com/ephor-dev/ephor/internal/compliance"
	"github.com/ephor-dev/ephor/internal/value"
)

// These constants limit the size of the index, whatever the reports contain.
const (
	maxBytes  = 64 << 20
	maxName   = 512 // bytes of a name
	perEntry  = 220 // bytes of an entry beside its names and results
	perResult = 9
)

// reportKey names a report. The namespace is empty for those of the cluster-scoped kind. It is what rights are about: a
// report may say of its resource what it likes.
type reportKey struct{ namespace, name string }

// identity identifies the resource of a result.
type identity struct{ policy, rule, severity, category, source string }

// entry is what is kept of a report and one resource: the result of each rule, without words. It never changes.
type entry struct {
	report    reportKey
	namespace unique.Handle[string] // of the resource
	kind      unique.Handle[string]
	name      string
	rules     []unique.Handle[identity]
	statuses  []status // of each rule
}

// size is roughly what the entry takes. What entries share is not counted.
func (e *entry) size() int {
	return perEntry + len(e.report.namespace) + len(e.report.name) + len(e.name) + perResult*len(e.rules)
}

// about reports whether the entry is about the resource.
func (e *entry) about(r compliance.Resource) bool {
	return short(r.Name) == e.name && short(r.Kind) == e.kind.Value() && short(r.Namespace) == e.namespace.Value()
}

// sort is what results have in common that differ in the names of their resources only. There are a hundred times fewer
// sorts than results.
type sort struct {
	namespace, kind unique.Handle[string]
	rule            unique.Handle[identity]
	status          status
}

// result returns a result of the sort, as package compliance has it.
func (s sort) result() compliance.Result {
	id := s.rule.Value()
	return compliance.Result{
		Policy: id.policy, Rule: id.rule, Severity: id.severity, Category: id.category, Source: id.source, Result: s.status.word(),
		Resource: compliance.Resource{Kind: s.kind.Value(), Namespace: s.namespace.Value()},
	}
}

// entriesOf returns the entries of a report: usually one, since ours are about one resource each.
func entriesOf(r compliance.Report) []*entry {
	var out []*entry
	byResource := map[compliance.Resource]*entry{}
	for i := range r.Results {
		res := &r.Results[i]
		about := compliance.Resource{Kind: res.Resource.Kind, Namespace: res.Resource.Namespace, Name: res.Resource.Name}
		e := byResource[about]
		if e == nil {
			e = &entry{
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

// short returns a copy of a name that keeps nothing else in memory, cut where no name is that long.
func short(name string) string { return strings.Clone(value.Clip(name, maxName)) }

// index is what is known of all reports. It is safe for several goroutines.
type index struct {
	mu      sync.RWMutex
	reports map[reportKey][]*entry
	bytes   int
	limit   int  // of bytes
	full    bool // a report found no room since the last list
}

func newIndex() *index { return &index{reports: map[reportKey][]*entry{}, limit: maxBytes} }

// put takes in a report that exists.
func (x *index) put(k reportKey, entries []*entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(k)
	size := sizeOf(entries)
	if x.bytes+size > x.limit {
		x.full = true
		return
	}
	x.reports[k] = entries
	x.bytes += size
}

func sizeOf(entries []*entry) int {
	size := perEntry
	for _, e := range entries {
		size += e.size()
	}
	return size
}

// remove takes in that a report is gone.
func (x *index) remove(k reportKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(k)
}

func (x *index) drop(k reportKey) {
	if old, ok := x.reports[k]; ok {
		delete(x.reports, k)
		x.bytes -= sizeOf(old)
	}
}

// begin says that reports are listed anew.
func (x *index) begin() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.full = false
}

// retain forgets the reports of one of the two kinds that are not listed any longer.
func (x *index) retain(cluster bool, listed map[reportKey]bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for k := range x.reports {
		if (k.namespace == "") == cluster && !listed[k] {
			x.drop(k)
		}
	}
}

// state returns the number of reports, and whether there are more, which found no room.
func (x *index) state() (reports int, full bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.reports), x.full
}

// namespaces returns those that have reports, sorted, without the cluster-scoped kind's.
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

// summary returns what the reports say that a query wants.
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

// totals counts the results of each namespace, in which the reports are.
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

// find returns the entries with results that a query wants, in the order of their resources, and how many such results there are.
func (x *index) find(q *query) (found []*entry, results int) {
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
	slices.SortFunc(found, func(a, b *entry) int { return a.position().compare(b.position()) })
	return found, results
}

// position is the place of an entry in the results that were found. The page gets it to continue from there.
type position struct {
	Namespace       string `json:"namespace"`
	Kind            string `json:"kind"`
	Name            string `json:"name"`
	ReportNamespace string `json:"reportNamespace"`
	Report          string `json:"report"`
}

func (e *entry) position() position {
	return position{e.namespace.Value(), e.kind.Value(), e.name, e.report.namespace, e.report.name}
}

func (p position) compare(o position) int {
	return cmp.Or(
		cmp.Compare(p.Namespace, o.Namespace), cmp.Compare(p.Kind, o.Kind), cmp.Compare(p.Name, o.Name),
		cmp.Compare(p.ReportNamespace, o.ReportNamespace), cmp.Compare(p.Report, o.Report),
	)
}
