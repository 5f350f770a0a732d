package observe

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"ephor.invalid/ephor/internal/compile"
	policies "ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// The suffixes of the two metrics for a kind of policies (family.Metrics).
const (
	resultsEnd   = "_results"
	executionEnd = "_execution_duration_seconds"
)

// kindMetrics returns the metrics of those kinds of policies in the families that have metrics of their own.
func kindMetrics(families *compile.Registry) (out []*policies.Metrics) {
	for _, k := range families.Kinds() {
		if k.Metrics != nil && !slices.ContainsFunc(out, func(m *policies.Metrics) bool { return m.Name == k.Metrics.Name }) {
			out = append(out, k.Metrics)
		}
	}
	return out
}

// resultInstruments returns the instruments for kindMetrics.
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
			Instrument{Name: m.Name + executionEnd, Kind: Histogram, Labels: labels, Help: "duration in seconds of the evaluation of a policy of kind " + m.Kind + " for one " + m.Per})
	}
	return out
}

// resultFamilies are the two instruments for the results of a kind of policies, and a function for the values of their labels.
type resultFamilies struct {
	count, took *family
	labels      func(r *policy.Result, req *policy.Request) []string
}

// resultKinds returns the families by the name of the metrics. The key "" stands for all other kinds.
func resultKinds(families *compile.Registry, get func(string) *family) map[string]resultFamilies {
	out := map[string]resultFamilies{"": {get(nameResults), get(nameExecution), ruleValues}}
	for _, m := range kindMetrics(families) {
		out[m.Name] = resultFamilies{get(m.Name + resultsEnd), get(m.Name + executionEnd), func(r *policy.Result, req *policy.Request) []string {
			return kindValues(m, r, req)
		}}
	}
	return out
}

// requestKey holds the values that all results of one request share.
type requestKey struct {
	kind, namespace string
	operation       policy.Operation
	origin          policy.RequestOrigin
	dryRun          bool
}

// resultKey identifies the series of a result within a requestKey. It contains the address of the rule, because this lookup must cost
// less than the rule itself.
type resultKey struct {
	rule   *policy.Rule
	status policy.Status
}

type resultSeries struct{ count, took *series }

// resultCache caches the series of results. It is cleared when policies or the configuration change, so that it does not keep rules in
// memory.
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
	// The cache is loaded before the series are looked up, so that a series of an outdated configuration is only added to an outdated cache.
	cache := m.results.now.Load()
	key := requestKey{kind: req.GVK.Kind, namespace: namespaceOf(req), operation: req.Operation, origin: req.Origin, dryRun: req.DryRun}
	next := cache.count(out.Results, key)
	for next < len(out.Results) {
		r := &out.Results[next]
		cache.put(key, resultKey{r.Rule, r.Status}, m.resolve(r, req), m.options.MaxSeries)
		next += cache.count(out.Results[next:], key)
	}
}

// count counts results until it finds one whose series is unknown, and returns how many it counted.
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

func (c *resultMap) put(of requestKey, key resultKey, s resultSeries, max int) {
	of.kind, of.namespace = strings.Clone(of.kind), strings.Clone(of.namespace) // they may share memory with the review
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

// resolve returns the series of a result, or none if its namespace is not counted.
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

// ruleValues returns the values of ruleLabels.
func ruleValues(r *policy.Result, req *policy.Request) []string {
	p := r.Program
	return []string{mode(p), policyType(p), strconv.FormatBool(p.Settings.Background), policyNamespace(p), p.Name,
		req.GVK.Kind, namespaceOf(req), operation(req.Operation), r.Rule.Name, r.Status.String(), ruleType(r.Rule),
		cause(req), strconv.FormatBool(req.DryRun)}
}

// namespaceOf returns the namespace of the object. For a request for a Namespace it returns nothing, although the request names the
// Namespace itself as its namespace.
func namespaceOf(req *policy.Request) string {
	if req.GVK.Kind == "Namespace" && req.GVK.Group == "" {
		return ""
	}
	return req.Namespace
}

// kindValues returns the values of the labels of a kind's metrics (resultInstruments).
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

// mode returns enforce if any rule of the policy denies requests in any namespace.
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

// operation returns the operation as the value of a label, without allocating memory.
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
