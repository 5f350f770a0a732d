package compliance

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/ephor-dev/ephor/internal/value"
)

// Line is one row of a table: the results of a policy, a namespace or a severity. The namespace of what lies in none is
// empty, and so is the severity of policies that have none.
type Line struct {
	Name string `json:"name"`
	Counts
	// Compliance is the share of what was evaluated that passes, in percent with one decimal, rounded down so that 100
	// means all; nil when nothing was evaluated.
	Compliance *float64 `json:"compliance"`
}

// Cell counts the results of one policy in one namespace, by severity.
type Cell struct {
	Policy    string `json:"policy"`
	Namespace string `json:"namespace"`
	Severity  string `json:"severity"`
	Counts
}

// Summary is what reports say. Policies and severities are ordered by how much is wrong, namespaces by name.
type Summary struct {
	Reports     int    `json:"reports"` // that were looked at, before the filter
	Totals      Line   `json:"totals"`
	ByPolicy    []Line `json:"byPolicy"`
	ByNamespace []Line `json:"byNamespace"`
	BySeverity  []Line `json:"bySeverity"`
	Cells       []Cell `json:"cells"`
	// Results are single results, the worst first, as many as were kept; Omitted is how many there are besides.
	Results []Result `json:"results,omitempty"`
	Omitted int      `json:"omitted,omitempty"`
}

// Options say what is counted and kept.
type Options struct {
	Filter Filter
	// Keep is how many single results are kept, those that are found first. Of them those that pass or are skipped are only
	// kept where the filter asks for their status by name.
	Keep int
}

// maxText bounds the message of a result that is kept and each of its properties, in bytes.
const maxText = 8 << 10

// Collector counts reports one by one. It may be used by several goroutines.
type Collector struct {
	options Options

	mu      sync.Mutex
	reports int
	cells   map[cellKey]*Counts
	results []Result
	omitted map[string]int // by namespace
}

type cellKey struct{ policy, namespace, severity string }

// New makes a Collector.
func New(o Options) *Collector {
	return &Collector{options: o, cells: map[cellKey]*Counts{}, omitted: map[string]int{}}
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

// Count counts n results that are alike but for the names of their resources, for who knows how many there are. None of them
// is kept, and the reports that they are of are not counted.
func (c *Collector) Count(r Result, n int) {
	if !c.options.Filter.Match(&r) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	*c.cell(&r).of(r.Result) += n
}

// cell is where a result is counted.
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

// Summary is what was added so far. With show only the namespaces that it allows are part of it, also in the totals; the
// empty name stands for what lies in none.
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

// rate fills Compliance.
func (l *Line) rate() {
	if percent, ok := l.Share(); ok {
		percent = math.Floor(percent*10) / 10
		l.Compliance = &percent
	}
}

// worse orders by what is wrong: failures, then errors, then warnings.
func worse(a, b Counts) int {
	return cmp.Or(cmp.Compare(b.Fail, a.Fail), cmp.Compare(b.Error, a.Error), cmp.Compare(b.Warn, a.Warn))
}
