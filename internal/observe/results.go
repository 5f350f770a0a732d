package observe

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ephor-dev/ephor/internal/compile"
	policies "github.com/ephor-dev/ephor/internal/family"
	"github.com/ephor-dev/ephor/internal/policy"
)

// The two metrics of a kind of policies (family.Metrics) end in these.
const (
	resultsEnd   = "_results"
	executionEnd = "_execution_duration_seconds"
)

// kindMetrics are the metrics that kinds of policies of some families have for themselves.
func kindMetrics(families *compile.Registry) (out []*policies.Metrics) {
	for _, k := range families.Kinds() {
		if k.Metrics != nil && !slices.ContainsFunc(out, func(m *policies.Metrics) bool { return m.Name == k.Metrics.Name }) {
			out = append(out, k.Metrics)
		}
	}
	return out
}

// resultInstruments are the instruments for kindMetrics.
func resultInstruments(families *compile.Registry) (out []Instrument) {
	for _, m := range kindMetrics(families) {
		var labels []string
		if m.Mode {
			labels = append(labels, modeLabel)
		}
		if m.Background {
			labels = append(labels, backgroundLabel)
		}
		labels = append(labels, kindLabels...)
		out = append(out,
			Instrument{Name: m.Name + resultsEnd, Kind: Counter, Labels: labels, Help: "results of policies of kind " + m.Kind},
			Instrument{Name: m.Name + executionEnd, Kind: Histogram, Labels: labels, Help: "seconds that a policy of kind " + m.Kind + " took for one " + m.Per})
	}
	return out
}

// resultFamilies are the two instruments for the results of a kind of policies, with the values of their labels.
type resultFamilies struct {
	count, took *family
	labels      func(r *policy.Result, req *policy.Request) []string
}

// resultKinds is by the name of the metrics; "" stands for all other kinds.
func resultKinds(families *compile.Registry, get func(string) *family) map[string]resultFamilies {
	out := map[string]resultFamilies{"": {get(nameResults), get(nameExecution), ruleValues}}
	for _, m := range kindMetrics(families) {
		out[m.Name] = resultFamilies{get(m.Name + resultsEnd), get(m.Name + executionEnd), func(r *policy.Result, req *policy.Request) []string {
			return kindValues(m, r, req)
		}}
	}
	return out
}

// requestKey is what the results of one request have in common.
type requestKey struct {
	kind, namespace string
	operation       policy.Operation
	origin          policy.RequestOrigin
	dryRun          bool
}

// resultKey says which of the series of a requestKey a result belongs to. It holds the rule by its address: finding the
// series of a result must cost less than the rule did.
type resultKey struct {
	rule   *policy.Rule
	status policy.Status
}

type resultSeries struct{ count, took *series }

// resultCache remembers the series of results. It is cleared when policies or the configuration change, so that it keeps
// no rule alive.
type resultCache struct{ now atomic.Pointer[resultMap] }

type resultMap struct {
	mu     sync.RWMutex
	series map[requestKey]map[resultKey]resultSeries
	size   int
}

func (c *resultCache) clear() {
	c.now.Store(&resultMap{series: map[requestKey]map[resultKey]resultSeries{}})
}

func (m *Metrics) evaluated(out *policy.Outcome) {
	req := out.Request
	for i := range out.Exceeded {
		p := out.Exceeded[i].Program
		if ns := policyNamespace(p); m.counts(ns) {
			m.exceeded.with(policyType(p), ns, p.Name).add(1)
		}
	}
	// The cache is taken before the series are looked up: series of a configuration that has gone since then only get
	// into a cache that has gone too.
	cache := m.results.now.Load()
	key := requestKey{kind: req.GVK.Kind, namespace: req.Namespace, operation: req.Operation, origin: req.Origin, dryRun: req.DryRun}
	next := cache.count(out.Results, key)
	for next < len(out.Results) {
		r := &out.Results[next]
		cache.keep(key, resultKey{r.Rule, r.Status}, m.resolve(r, req), m.options.MaxSeries)
		next += cache.count(out.Results[next:], key)
	}
}

// count counts results up to the first one whose series is not known, and returns how many it counted.
func (c *resultMap) count(results []policy.Result, key requestKey) int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	known := c.series[key]
	for i := range results {
		r := &results[i]
		s, ok := known[resultKey{r.Rule, r.Status}]
		if !ok {
			return i
		}
		s.count.add(1)
		s.took.observe(r.Elapsed.Seconds())
	}
	return len(results)
}

func (c *resultMap) keep(of requestKey, key resultKey, s resultSeries, max int) {
	of.kind, of.namespace = strings.Clone(of.kind), strings.Clone(of.namespace) // they may be parts of the review
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size >= max {
		clear(c.series)
		c.size = 0
	}
	known := c.series[of]
	if known == nil {
		known = map[resultKey]resultSeries{}
		c.series[of] = known
	}
	known[key] = s
	c.size++
}

// resolve finds the series of a result; none when its namespace is not counted.
func (m *Metrics) resolve(r *policy.Result, req *policy.Request) resultSeries {
	if !m.counts(r.Program.Namespace) {
		return resultSeries{}
	}
	f, ok := m.kinds[r.Program.Names.Metrics]
	if !ok {
		f = m.kinds[""]
	}
	values := f.labels(r, req)
	return resultSeries{count: f.count.with(values...), took: f.took.with(values...)}
}

// ruleValues are the values of ruleLabels.
func ruleValues(r *policy.Result, req *policy.Request) []string {
	p := r.Program
	return []string{mode(p), policyType(p), strconv.FormatBool(p.Settings.Background), policyNamespace(p), p.Name,
		req.GVK.Kind, namespaceOf(req), operation(req.Operation), r.Rule.Name, r.Status.String(), ruleType(r.Rule),
		cause(req), strconv.FormatBool(req.DryRun)}
}

// namespaceOf is the namespace that the object lies in: a request names that of a Namespace after itself.
func namespaceOf(req *policy.Request) string {
	if req.GVK.Kind == "Namespace" && req.GVK.Group == "" {
		return ""
	}
	return req.Namespace
}

// kindValues are the values of the labels of the metrics of a kind (resultInstruments).
func kindValues(m *policies.Metrics, r *policy.Result, req *policy.Request) (out []string) {
	p := r.Program
	if m.Mode {
		action := "Audit"
		if mode(p) == enforce {
			action = "Deny"
		}
		out = append(out, action)
	}
	if m.Background {
		out = append(out, strconv.FormatBool(p.Settings.Background))
	}
	return append(out, p.Name, p.Namespace,
		req.GVK.Kind, namespaceOf(req), operation(req.Operation), cmp.Or(m.Cause, cause(req)), r.Status.String())
}

// The values of policy_validation_mode.
const (
	enforce = "enforce"
	audit   = "audit"
)

// mode is enforce when some rule of the policy refuses requests somewhere.
func mode(p *policy.Program) string {
	for _, r := range p.Rules {
		if r.Action.May(policy.Deny) {
			return enforce
		}
	}
	return audit
}

func policyType(p *policy.Program) string {
	if p.Namespace == "" {
		return "cluster"
	}
	return "namespaced"
}

func policyNamespace(p *policy.Program) string {
	if p.Namespace == "" {
		return "-"
	}
	return p.Namespace
}

func ruleType(r *policy.Rule) string {
	switch {
	case r.Stage.Has(policy.StageVerifyImages):
		return "imageVerify"
	case r.Stage.Has(policy.StageMutate | policy.StageMutateExisting):
		return "mutate"
	case r.Stage.Has(policy.StageGenerate):
		return "generate"
	case r.Stage.Has(policy.StageValidate):
		return "validate"
	}
	return "-"
}

func cause(req *policy.Request) string {
	if req.Origin == policy.FromScan {
		return "background_scan"
	}
	return "admission_request"
}

// operation is the operation as labels have it, without an allocation.
func operation(o policy.Operation) string {
	switch o {
	case policy.Create:
		return "create"
	case policy.Update:
		return "update"
	case policy.Delete:
		return "delete"
	case policy.Connect:
		return "connect"
	}
	return strings.ToLower(string(o))
}
