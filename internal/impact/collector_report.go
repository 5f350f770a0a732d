package impact

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/rollout"
)

// Facts is the information about the run in addition to the verdicts.
type Facts struct {
	// Owners finds owners in a cluster; nil if only the records are available. Label is the label whose value names the owner of a resource.
	Owners *rollout.Owners
	Label  string
	// Labels returns the labels of a namespace, if they are known without a cluster.
	Labels func(ctx context.Context, namespace string) (map[string]string, error)
	// Cluster: rules can look things up. Otherwise, NoLookups is the text about rules that need a lookup; empty for the text of the command
	// line.
	Cluster   bool
	NoLookups string
	// Objects: there are existing objects among the records.
	Objects bool
	// Deferred: some rule generates objects or changes existing ones.
	Deferred bool
	// Lacks has further entries for the report.
	Lacks []Lack
}

// Report returns the counts.
func (c *Collector) Report(ctx context.Context, f Facts) *Report {
	r := c.report
	if c.counting {
		effect := c.effect
		r.Effect = &effect
	}
	r.Rules = []Rule{}
	for _, n := range c.rules {
		r.Rules = append(r.Rules, *n)
	}
	slices.SortFunc(r.Rules, func(a, b Rule) int {
		return cmp.Or(b.Refused-a.Refused, b.Fail-a.Fail, b.Error-a.Error, strings.Compare(a.Policy, b.Policy), strings.Compare(a.Rule, b.Rule))
	})
	r.Namespaces, r.Users = sorted(c.groups[0]), sorted(c.groups[1])
	if r.Examples == nil {
		r.Examples = []Example{}
	}
	r.Lacks = c.lacksOf(f)
	c.ownersOf(ctx, f, &r)
	return &r
}

func sorted(groups map[string]*Group) []Group {
	out := []Group{}
	for _, g := range groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b Group) int {
		return cmp.Or(b.Refused-a.Refused, b.Violating-a.Violating, b.Erred-a.Erred, b.Warned-a.Warned, b.Changed-a.Changed, b.Requests-a.Requests, strings.Compare(a.Name, b.Name))
	})
	return out
}

// ownersOf finds the owners of the touched objects.
func (c *Collector) ownersOf(ctx context.Context, f Facts, r *Report) {
	type whose struct{ namespace, owner, whose string }
	merged := map[whose]*Owner{}
	unknown, firstErr := 0, ""
	for _, key := range slices.SortedFunc(maps.Keys(c.owners), func(a, b ownerKey) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.kind, b.kind), strings.Compare(a.name, b.name), strings.Compare(a.apiVersion, b.apiVersion))
	}) {
		o := c.owners[key]
		end, name := o.resource, o.own.Labels[f.Label]
		switch {
		case f.Owners != nil && o.resource.Name != "":
			var err error
			if end, name, err = f.Owners.Of(ctx, o.resource, o.own); err != nil {
				if unknown++; firstErr == "" {
					firstErr = err.Error()
				}
				end, name = o.resource, o.own.Labels[f.Label]
			}
		case f.Label != "" && name == "" && f.Labels != nil && o.resource.Namespace != "":
			if labels, err := f.Labels(ctx, o.resource.Namespace); err == nil {
				name = labels[f.Label]
			}
		}
		k := whose{o.resource.Namespace, strings.TrimSuffix(end.Kind+"/"+end.Name, "/"), name}
		m := merged[k]
		if m == nil {
			m = &Owner{Namespace: k.namespace, Owner: k.owner, Whose: k.whose}
			merged[k] = m
		}
		m.Requests += o.requests
		m.Counts.add(o.Counts)
	}
	r.Owners = []Owner{}
	for _, m := range merged {
		r.Owners = append(r.Owners, *m)
	}
	slices.SortFunc(r.Owners, func(a, b Owner) int {
		return cmp.Or(b.Refused-a.Refused, b.Violating-a.Violating, b.Requests-a.Requests, strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Owner, b.Owner), strings.Compare(a.Whose, b.Whose))
	})
	if unknown > 0 {
		r.Lacks = append(r.Lacks, Lack{"the end of the chain of owners: " + firstErr, unknown})
	}
}

// lacksOf lists the information that is not available.
func (c *Collector) lacksOf(f Facts) []Lack {
	out := []Lack{}
	add := func(n int, what string) {
		if n > 0 {
			out = append(out, Lack{what, n})
		}
	}
	add(c.lacks.noObject, "the results for requests whose record does not hold the object: an audit log has it at level RequestResponse, but not for deletions of collections, connections, refused patches, and most deletions")
	add(c.lacks.noOld, "the results of rules that read the old object of an update: an audit log does not hold it")
	if f.Objects {
		add(c.lacks.noUser, "who would create the existing objects: they are evaluated without a user")
	} else {
		add(c.lacks.noUser, "the users of requests whose record has no user: these requests are evaluated without a user")
	}
	add(c.lacks.noRequest, "the results for reviews whose record does not hold the request: --decisionsRequests records it, unless it is very large")
	add(c.lacks.withheld, "the results for requests with objects that you may not list: their records show only the decision")
	add(c.lacks.noText, "the results for requests whose objects are in an earlier record that was not read: give the files from their beginning")
	add(c.lacks.cut, "the results for requests from which a policy reads a value that was cut before it was recorded (--redact)")
	add(c.lacks.assumed, "the results of rules that change objects and may read values that were cut: they are evaluated with "+decision.Redacted+" in place of these values")
	if c.lacks.sampled > 0 {
		add(int(min(c.unsampled, math.MaxInt32)), fmt.Sprintf("passed reviews that were not recorded: an estimate from the records of %d, since only a share is recorded (--decisionsShare)", c.lacks.sampled))
	}
	add(c.lacks.alike, "whether reviews belong to separate requests: each is similar to an earlier one (user, object, operation), but came more than a second later, or with another object. They count as the same request")
	add(c.lacks.clipped, "the contents of further records that cannot be read")
	for _, why := range slices.Sorted(maps.Keys(c.lacks.notRecorded)) {
		add(c.lacks.notRecorded[why], "the results for requests for which a rule looks up something that is not in the record: "+why)
	}
	if c.lacks.erred > 0 && !f.Cluster {
		add(c.lacks.erred, cmp.Or(f.NoLookups, "the lookups of rules: a rule that needs the cluster ends in an error; --cluster looks things up in the cluster as it is now, and --values-file gives values"))
	} else if f.Cluster {
		add(c.lacks.untaped+c.lacks.lived, "the answers to lookups at the time of the request: lookups that are not recorded are made in the cluster as it is now")
	}
	if f.Deferred {
		add(max(c.report.Matched, 1), "the objects that generate rules would create, and the changes that mutate rules would make to existing objects: these rules run after the answer")
	}
	return append(out, f.Lacks...)
}

// Reached reports whether n or more requests are of the class. known is false for a class that does not exist, and for a class that needs
// policies in force if there are none.
func (r *Report) Reached(class string, n int) (reached, known bool) {
	counts := map[string]int{
		classRefused: r.After.Refused, classWarned: r.After.Warned, classChanged: r.After.Changed, classErred: r.After.Erred, classViolating: r.After.Violating,
		"unreadable": len(r.Unreadable),
	}
	if r.Effect != nil {
		counts["newly-refused"], counts["no-longer-refused"] = r.Effect.NewlyRefused, r.Effect.NoLongerRefused
	}
	have, known := counts[class]
	return known && have >= n, known
}

// Classes lists the names that Reached accepts.
var Classes = []string{classRefused, "newly-refused", "no-longer-refused", classWarned, classChanged, classErred, classViolating, "unreadable"}
