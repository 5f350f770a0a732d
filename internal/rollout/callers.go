package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ephor-dev/ephor/internal/compliance"
	"github.com/ephor-dev/ephor/internal/value"
)

// Caller is an object with recorded requests that Enforce refuses, or would have refused.
type Caller struct {
	// Resource is what manages the object of the requests, or the object itself. It need not exist any more.
	Resource compliance.Resource `json:"resource"`
	// Owner is the end of the chain of ownerReferences; nil when it was not found out.
	Owner *compliance.Resource `json:"owner,omitempty"`
	// Whose is the value of the owner label; empty when nothing on the chain has it.
	Whose string `json:"whose,omitempty"`
	// Users made the requests: the first maxUsers of them.
	Users    []string    `json:"users,omitempty"`
	Requests int         `json:"requests"`
	Rules    []Violation `json:"rules"`
	own      Meta
}

// maxUsers is how many users of a Caller are listed.
const maxUsers = 5

// callerKey is what the requests of one Caller have in common.
type callerKey struct{ apiVersion, kind, namespace, name, rules string }

// Violating takes a recorded request that violates the policy: what it is about, what the request says of that (Subject of package impact),
// who made it, and the rules. Requests of namespaces that are not looked at, and rules
// that Enforce does not concern, are left out.
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

// called puts the Callers into the plan, those with most requests first.
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
