package rollout

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"ephor.invalid/ephor/internal/policy"
)

// Sample is one series in an answer of Prometheus: its labels and its value.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Requests are the requests that the policy evaluated at admission, from metrics or recorded decisions.
type Requests struct {
	Window time.Duration
	// Samples count results by resource_namespace, rule_name and rule_result.
	Samples []Sample
	// Lacks lists information that is missing in the source of the samples.
	Lacks []string
	// Missing are requests that the source does not show: without them it is not known whether the policy is safe.
	Missing []string
}

// Counted are the results of requests in one namespace in the selected time. A request counts for each rule that evaluates
// it.
type Counted struct {
	Evaluated int `json:"evaluated"`
	// Refused violated a rule that is enforced in the namespace; WouldRefuse violated a rule that only audits.
	Refused     int `json:"refused"`
	WouldRefuse int `json:"wouldRefuse"`
	Errors      int `json:"errors"`
}

// rate is the percentage of results that are violations.
func (c Counted) rate() float64 {
	if c.Evaluated == 0 {
		return 0
	}
	return 100 * float64(c.Refused+c.WouldRefuse+c.Errors) / float64(c.Evaluated)
}

func (c *Counted) merge(o Counted) {
	c.Evaluated += o.Evaluated
	c.Refused += o.Refused
	c.WouldRefuse += o.WouldRefuse
	c.Errors += o.Errors
}

// Query returns the query that asks Prometheus for the Samples of a policy. increase() ignores the value that a counter had
// when it was first seen, so a rule that denied once would be missing. For series that are younger than the window, the query
// uses the value itself. policy is a name, or namespace/name.
func Query(policy string, window time.Duration) string {
	namespace, name, found := strings.Cut(policy, "/")
	if !found {
		namespace, name = "-", policy
	}
	series := fmt.Sprintf(`kyverno_policy_results_total{policy_name=%s,policy_namespace=%s,rule_execution_cause="admission_request",rule_result=~"pass|fail|warn|error",dry_run!="true"}`,
		strconv.Quote(name), strconv.Quote(namespace))
	w := strconv.FormatInt(int64(window/time.Second), 10) + "s"
	return fmt.Sprintf("sum by (resource_namespace, rule_name, rule_result) ((increase(%[1]s[%[2]s]) and %[1]s offset %[2]s) or (max_over_time(%[1]s[%[2]s]) unless %[1]s offset %[2]s))",
		series, w)
}

// Count adds the results of requests, including those in namespaces without reports, since denied objects have no reports.
func (c *Collector) Count(r Requests) {
	c.requests, c.samples = &r, map[string][]Sample{}
	for _, s := range r.Samples {
		namespace := s.Labels["resource_namespace"]
		if c.in(namespace) && c.counts(s) {
			c.namespace(namespace)
			c.samples[namespace] = append(c.samples[namespace], s)
		}
	}
}

// counts reports whether a sample is about a rule that Enforce affects. If the label is missing, because the metrics
// ConfigMap omits it, all samples count.
func (c *Collector) counts(s Sample) bool {
	name := s.Labels["rule_name"]
	if name == "" || c.rules == nil {
		return true
	}
	r := c.rules[name]
	return r != nil && Enforced(r)
}

// requestsIn counts the requests in a namespace. actions are the current actions of the rules in it, and all is the action
// that they have in common.
func (c *Collector) requestsIn(namespace string, actions map[string]policy.Action, all string) *Counted {
	if c.requests == nil {
		return nil
	}
	out := &Counted{}
	for _, s := range c.samples[namespace] {
		action, known := actions[s.Labels["rule_name"]]
		n := int(math.Round(s.Value))
		out.Evaluated += n
		switch s.Labels["rule_result"] {
		case "pass":
		case "error":
			out.Errors += n
		default:
			if known && action.Has(policy.Deny) || !known && all == policy.Deny.String() {
				out.Refused += n
			} else {
				out.WouldRefuse += n
			}
		}
	}
	return out
}
