package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/value"
)

// Caller is an object with recorded requests that Enforce denies, or would have denied.
type Caller struct {
	// Resource is the object that manages the object of the requests, or that object itself. It may no longer exist.
	Resource compliance.Resource `json:"resource"`
	// Owner is the end of the chain of ownerReferences; nil if it is unknown.
	Owner *compliance.Resource `json:"owner,omitempty"`
	// Whose is the value of the owner label; empty if no object in the chain has it.
	Whose string `json:"whose,omitempty"`
	// Users are the users that made the requests, the first maxUsers of them.
	Users    []string    `json:"users,omitempty"`
	Requests int         `json:"requests"`
	Rules    []Violation `json:"rules"`
	own      Meta
}

// maxUsers is the number of users that are listed for a Caller.
const maxUsers = 5

// callerKey is what the requests of one Caller have in common.
type callerKey struct{ apiVersion, kind, namespace, name, rules string }

// Violating adds a recorded request that violates the policy: its resource, the metadata of that resource in the request (Subject of
// package impact), its user, and the violated rules. It ignores requests in namespaces that are not selected, and rules that Enforce does
// not affect.
func (c *Collector) Violating(r compliance.Resource, own Meta, user string, rules []Violation) {
	rules = slices.DeleteFunc(slices.Clone(rules), func(v Violation) bool {
		rule := c.rules[v.Rule]
		return c.rules != nil && (rule == nil || !Enforced(rule))
	})
	if !c.in(r.Namespace) || len(rules) == 0 {
		return
	}
	names := make([]string, len(rules))
	for i := range rules {
		names[i] = rules[i].Rule
	}
	k := callerKey{r.APIVersion, r.Kind, r.Namespace, r.Name, strings.Join(names, ",")}
	x := c.callers[k]
	if x == nil {
		if len(c.callers) >= c.options.Keep {
			c.uncalled++
			return
		}
		x = &Caller{Resource: r, own: own, Rules: rules}
		for i := range x.Rules {
			x.Rules[i].Message = value.Clip(x.Rules[i].Message, maxMessage)
		}
		c.callers[k] = x
	}
	x.Requests++
	if user != "" && len(x.Users) < maxUsers && !slices.Contains(x.Users, user) {
		x.Users = append(x.Users, user)
	}
}

// called adds the Callers to the plan, those with most requests first.
func (c *Collector) called(p *Plan) {
	for _, x := range c.callers {
		p.Callers = append(p.Callers, *x)
	}
	slices.SortFunc(p.Callers, func(a, b Caller) int {
		return cmp.Or(b.Requests-a.Requests, cmp.Compare(a.Resource.String(), b.Resource.String()), cmp.Compare(a.Rules[0].Rule, b.Rules[0].Rule), len(a.Rules)-len(b.Rules))
	})
	if c.uncalled > 0 {
		p.lack(false, fmt.Sprintf("whose %d more of the recorded requests are: --limit is how many objects are listed", c.uncalled))
	}
	if c.requests != nil {
		for _, what := range c.requests.Lacks {
			p.lack(false, what)
		}
		for _, what := range c.requests.Missing {
			p.lack(true, what)
		}
	}
}

// call finds the end of the chain above a Caller.
func (o *Owners) call(ctx context.Context, x *Caller) error {
	end, whose, err := o.Of(ctx, x.Resource, x.own)
	if err != nil {
		return err
	}
	x.Owner, x.Whose = &end, whose
	return nil
}
