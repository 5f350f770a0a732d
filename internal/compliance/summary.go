package compliance

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"

	"ephor.invalid/ephor/internal/value"
)

// Line is one row of a table: the results of a policy, a namespace or a severity. The namespace is empty for cluster-scoped
// resources, and the severity for policies without one.
type Line struct {
	Name string `json:"name"`
	Counts
	// Compliance is the percentage of evaluated results that pass, with one decimal, rounded down so that 100 means all; nil
	// if nothing was evaluated.
	Compliance *float64 `json:"compliance"`
}

// Cell counts the results of one policy in one namespace, by severity.
type Cell struct {
	Policy    string `json:"policy"`
	Namespace string `json:"namespace"`
	Severity  string `json:"severity"`
	Counts
}

// Summary is the summary of reports. Policies and severities are ordered by the number of problems, namespaces by name.
type Summary struct {
	Reports     int    `json:"reports"` // the number of reports before the filter
	Totals      Line   `json:"totals"`
	ByPolicy    []Line `json:"byPolicy"`
	ByNamespace []Line `json:"byNamespace"`
	BySeverity  []Line `json:"bySeverity"`
	Cells       []Cell `json:"cells"`
	// Results are the single results that were kept, the worst first; Omitted is the number of others.
	Results []Result `json:"results,omitempty"`
	Omitted int      `json:"omitted,omitempty"`
	// Exempt is the number of results that exceptions changed.
	Exempt int `json:"exempt,omitempty"`
}

// Options define which results are counted and kept.
type Options struct {
	Filter Filter
	// Keep is the maximum number of single results to keep; the first ones are kept. Passed and skipped results are kept
	// only if the filter selects their status by name.
	Keep int
}

// maxText bounds the message, and each property, of a result that is kept, in bytes.
const maxText = 8 << 10

// Collector counts reports one by one. It is safe for concurrent use.
type Collector struct {
	options Options

	mu      sync.Mutex
	reports int
	cells   map[cellKey]*Counts
	results []Result
	omitted map[string]int // by namespace
	exempt  map[string]int
}

type cellKey struct{ policy, namespace, severity string }

// New returns an empty Collector.
func New(o Options) *Collector {
	return &Collector{options: o, cells: map[cellKey]*Counts{}, omitted: map[string]int{}, exempt: map[string]int{}}
}

// Add counts the results of a report.
func (c *Collector) Add(r Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reports++
	for i := range r.Results {
		if one := &r.Results[i]; c.options.Filter.Match(one) {
			c.add(one)
		}
	}
}

// Count counts n results that differ only in the names of their resources, for a caller that knows only their number. It
// keeps none of them, and does not count their reports.
func (c *Collector) Count(r Result, n int) {
	if !c.options.Filter.Match(&r) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	*c.cell(&r).of(r.Result) += n
}

// cell returns the counters for a result.
func (c *Collector) cell(r *Result) *Counts {
	key := cellKey{r.Policy, r.Resource.Namespace, r.Severity}
	counts := c.cells[key]
	if counts == nil {
		counts = &Counts{}
		c.cells[key] = counts
	}
	return counts
}

func (c *Collector) add(r *Result) {
	c.cell(r).Add(r.Result)
	if len(r.Exceptions()) > 0 {
		c.exempt[r.Resource.Namespace]++
	}
	if (r.Result == Pass || r.Result == Skip) && !slices.Contains(c.options.Filter.Results, r.Result) {
		return
	}
	if len(c.results) >= c.options.Keep {
		c.omitted[r.Resource.Namespace]++
		return
	}
	c.results = append(c.results, *r)
	kept := &c.results[len(c.results)-1]
	kept.Message = value.Clip(kept.Message, maxText)
	for key, text := range kept.Properties {
		if len(text) > maxText {
			kept.Properties = maps.Clone(kept.Properties)
			kept.Properties[key] = value.Clip(text, maxText)
		}
	}
}

// Summary returns the summary of all results so far. If show is set, the summary and its totals cover only the namespaces
// that it allows; the empty name stands for cluster-scoped resources.
func (c *Collector) Summary(show func(namespace string) bool) Summary {
	c.mu.Lock()
	defer c.mu.Unlock()
	if show == nil {
		show = func(string) bool { return true }
	}
	s := Summary{Reports: c.reports, Totals: Line{Name: "total"}, Cells: []Cell{}}
	policies, namespaces, severities := map[string]*Counts{}, map[string]*Counts{}, map[string]*Counts{}
	for k, counts := range c.cells {
		if !show(k.namespace) {
			continue
		}
		s.Cells = append(s.Cells, Cell{k.policy, k.namespace, k.severity, *counts})
		s.Totals.merge(*counts)
		sum(policies, k.policy, *counts)
		sum(namespaces, k.namespace, *counts)
		sum(severities, k.severity, *counts)
	}
	for namespace, n := range c.exempt {
		if show(namespace) {
			s.Exempt += n
		}
	}
	s.Totals.rate()
	s.ByPolicy, s.ByNamespace, s.BySeverity = lines(policies), lines(namespaces), lines(severities)
	slices.SortFunc(s.ByPolicy, func(a, b Line) int { return cmp.Or(worse(a.Counts, b.Counts), cmp.Compare(a.Name, b.Name)) })
	slices.SortFunc(s.ByNamespace, func(a, b Line) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.BySeverity, func(a, b Line) int { return cmp.Compare(rank(a.Name), rank(b.Name)) })
	slices.SortFunc(s.Cells, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(rank(a.Severity), rank(b.Severity)))
	})
	for i := range c.results {
		if show(c.results[i].Resource.Namespace) {
			s.Results = append(s.Results, c.results[i])
		}
	}
	slices.SortStableFunc(s.Results, func(a, b Result) int {
		return cmp.Or(cmp.Compare(slices.Index(Statuses, a.Result), slices.Index(Statuses, b.Result)), cmp.Compare(rank(a.Severity), rank(b.Severity)),
			cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Resource.String(), b.Resource.String()))
	})
	for namespace, n := range c.omitted {
		if show(namespace) {
			s.Omitted += n
		}
	}
	return s
}

func sum(into map[string]*Counts, name string, counts Counts) {
	if into[name] == nil {
		into[name] = &Counts{}
	}
	into[name].merge(counts)
}

func lines(of map[string]*Counts) []Line {
	out := make([]Line, 0, len(of))
	for name, counts := range of {
		l := Line{Name: name, Counts: *counts}
		l.rate()
		out = append(out, l)
	}
	return out
}

// rate sets Compliance.
func (l *Line) rate() {
	if percent, ok := l.Share(); ok {
		percent = math.Floor(percent*10) / 10
		l.Compliance = &percent
	}
}

// worse orders by the number of failures, then errors, then warnings.
func worse(a, b Counts) int {
	return cmp.Or(cmp.Compare(b.Fail, a.Fail), cmp.Compare(b.Error, a.Error), cmp.Compare(b.Warn, a.Warn))
}
