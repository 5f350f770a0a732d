package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/wildcard"
)

// Options define what is collected.
type Options struct {
	Policy string // the name in reports: name, or namespace/name
	// Program is the policy; nil if only reports are available.
	Program *policy.Program
	// NamespaceLabels returns the labels of a namespace. It is called if an action depends on them.
	NamespaceLabels func(ctx context.Context, namespace string) (map[string]string, error)
	// Namespaces selects namespaces, with wildcards; none for all namespaces and cluster-scoped resources.
	Namespaces []string
	// Keep is the number of denied resources to list.
	Keep int
}

// maxMessage bounds the message of a violation, in bytes.
const maxMessage = 2 << 10

// sourceOfPolicies is the source in the results of our policies.
const sourceOfPolicies = "kyverno"

// Collector collects the results of one policy from reports. Memory grows with the number of namespaces and with
// Options.Keep.
type Collector struct {
	options    Options
	rules      map[string]*policy.Rule // nil without a Program
	namespaces map[string]*Namespace
	refused    []Refused
	omitted    int
	stale      int // results of rules that the policy no longer has
	requests   *Requests
	samples    map[string][]Sample // from requests, by namespace
	results    map[Kind]int        // number of resources that have a result
	callers    map[callerKey]*Caller
	uncalled   int // requests of callers that are not listed
}

// New returns an empty Collector.
func New(o Options) *Collector {
	c := &Collector{options: o, namespaces: map[string]*Namespace{}, results: map[Kind]int{}, callers: map[callerKey]*Caller{}}
	if o.Program != nil {
		c.rules = map[string]*policy.Rule{}
		for _, r := range o.Program.Rules {
			c.rules[r.Name] = r
		}
	}
	return c
}

// tally holds the results of the policy's rules for one resource.
type tally struct {
	evaluated, failed, errors, skipped int
	violations                         []Violation
}

// Add adds the results of the policy in a report.
func (c *Collector) Add(r compliance.Report) {
	var order []compliance.Resource
	found := map[compliance.Resource]*tally{}
	for i := range r.Results {
		one := &r.Results[i]
		if !c.about(one) {
			continue
		}
		t := found[one.Resource]
		if t == nil {
			t = &tally{}
			found[one.Resource] = t
			order = append(order, one.Resource)
		}
		t.add(one)
	}
	for _, resource := range order {
		c.resource(resource, found[resource])
	}
}

// about reports whether Enforce of the policy affects the result.
func (c *Collector) about(r *compliance.Result) bool {
	if r.Policy != c.options.Policy || c.rules != nil && r.Source != "" && r.Source != sourceOfPolicies {
		return false
	}
	if !c.in(r.Resource.Namespace) {
		return false
	}
	if c.rules == nil {
		return true
	}
	rule := c.rules[r.Rule]
	if rule == nil {
		c.stale++
		return false
	}
	return Enforced(rule)
}

// in reports whether a namespace is selected.
func (c *Collector) in(namespace string) bool {
	return len(c.options.Namespaces) == 0 || namespace != "" && wildcard.MatchAny(c.options.Namespaces, namespace)
}

func (t *tally) add(r *compliance.Result) {
	switch r.Result {
	case compliance.Skip:
		t.skipped++
		return
	case compliance.Fail, compliance.Warn: // warn: the policy is not scored, which does not matter to Enforce
		t.failed++
		t.violations = append(t.violations, Violation{r.Rule, value.Clip(r.Message, maxMessage)})
	case compliance.Error:
		t.errors++
	}
	t.evaluated++
}

func (c *Collector) resource(r compliance.Resource, t *tally) {
	c.results[kindOf(r)]++
	n := c.namespace(r.Namespace)
	if t.evaluated == 0 {
		n.Exempt++
		return
	}
	n.Resources++
	if t.failed == 0 {
		n.Errors += min(t.errors, 1)
		return
	}
	n.Violating++
	if len(c.refused) >= c.options.Keep {
		c.omitted++
		return
	}
	c.refused = append(c.refused, Refused{Resource: r, Rules: t.violations})
}

func kindOf(r compliance.Resource) Kind {
	group, _, found := strings.Cut(r.APIVersion, "/")
	if !found {
		group = ""
	}
	return Kind{group, r.Kind}
}

// In reports whether a namespace is selected.
func (c *Collector) In(namespace string) bool { return c.in(namespace) }

// namespace returns the line of a namespace.
func (c *Collector) namespace(name string) *Namespace {
	n := c.namespaces[name]
	if n == nil {
		n = &Namespace{Name: name}
		c.namespaces[name] = n
	}
	return n
}

// Plan returns the plan from all results so far. It reads the labels of namespaces if the policy's actions depend on
// them.
func (c *Collector) Plan(ctx context.Context) *Plan {
	p := &Plan{Policy: c.options.Policy, Reasons: []string{}, Namespaces: []Namespace{}, Refused: append([]Refused{}, c.refused...), Omitted: c.omitted, Lacks: []Lack{}}
	for _, n := range c.namespaces {
		var actions map[string]policy.Action
		actions, n.Action = c.actions(ctx, n.Name, p)
		n.Requests = c.requestsIn(n.Name, actions, n.Action)
		n.settle()
		p.Namespaces = append(p.Namespaces, *n)
	}
	slices.SortFunc(p.Namespaces, func(a, b Namespace) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(p.Refused, func(a, b Refused) int { return cmp.Compare(a.Resource.String(), b.Resource.String()) })
	if c.omitted > 0 {
		p.lack(false, fmt.Sprintf("%d more that would be refused: --limit is how many resources are listed", c.omitted))
	}
	if c.stale > 0 {
		p.lack(true, fmt.Sprintf("up-to-date reports: %d of their results: the policy has no such rules", c.stale))
	}
	p.requests, p.results = c.requests, c.results
	c.called(p)
	if c.options.Program == nil {
		p.lack(false, "the policy itself (its actions, its age, its rules) and the owners of resources: they are read from a cluster only")
		return p
	}
	p.Action = policyAction(c.options.Program)
	return p
}
