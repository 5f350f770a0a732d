package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The figures of the guide that most teams follow: a week of Audit, no violating resource before Enforce, and a violation
// rate below one percent after it.
const (
	maxRate   = 1.0 // percent; below
	auditTime = 7 * 24 * time.Hour
)

// Facts are known facts about the policy that are not in reports.
type Facts struct {
	Now     time.Time
	Created time.Time // zero if it is unknown
	// MinAge is the minimum age of the policy; 0 turns the guide's week into advice.
	MinAge time.Duration
	// NotReady is the reason why the policy is not reliable; empty if it is ready.
	NotReady string
	// NotScanned are the reasons why reports do not cover existing resources. Results of requests are used instead.
	NotScanned []string
	// NotRead are kinds that the scan may not read, with the reason; nothing replaces their results.
	NotRead []string
	// Changed is when the policy was last written; zero if unknown.
	Changed time.Time
	// Existing is the number of existing resources of the kinds that the policy names, if they could be counted.
	Existing map[Kind]int
}

// settled is how long reports may take after a change of the policy, in a cluster of some size.
const settled = 5 * time.Minute

// Evaluate compares the plan with the figures of the guide, and sets Targets, Reasons and Verdict.
func (p *Plan) Evaluate(f Facts) {
	var resources, violating, errors int
	for _, n := range p.Namespaces {
		resources += n.Resources
		violating += n.Violating
		errors += n.Errors
	}
	requests, seen := p.allRequests()
	// If no scan can evaluate the policy, only requests show its results.
	some, advice := resources > 0, resources == 0 && seen && len(f.NotScanned) > 0
	p.target(Target{Name: "resources in order", Want: "100%", Have: percentage(resources-violating-errors, resources), Advice: advice}, some, violating+errors == 0)
	p.target(Target{Name: "resources that could not be evaluated", Want: "0", Have: fmt.Sprint(errors), Advice: advice}, some, errors == 0)
	worst, name := p.worstNamespace()
	have := "-"
	if some {
		have = fmt.Sprintf("%.1f%%", worst)
		if worst > 0 {
			have += " (" + shownNamespace(name) + ")"
		}
	}
	p.target(Target{Name: "violation rate in every namespace", Want: "below 1%", Have: have, Advice: advice}, some, worst < maxRate)
	have = "-"
	if seen {
		have = fmt.Sprintf("%.1f%% of %d in %s", requests.rate(), requests.Evaluated, p.requests.Window)
	}
	p.target(Target{Name: "violation rate of requests", Want: "below 1%", Have: have, Advice: !seen}, seen, requests.rate() < maxRate)
	p.age(f)

	switch {
	case f.NotReady != "":
		p.lack(true, "a policy that is in force: "+f.NotReady)
	case resources == 0 && !seen:
		p.lack(true, "results: no report says anything about the policy")
	}
	for _, why := range f.NotScanned {
		p.lack(!seen, "what exists already: "+why)
	}
	for _, why := range f.NotRead {
		p.lack(true, "what the scan may not read: "+why)
	}
	if age := f.Now.Sub(f.Changed); !f.Changed.IsZero() && age < settled {
		p.lack(false, fmt.Sprintf("whether everything was evaluated with the current policy: it was written %s ago, and a scan takes up to some minutes", age.Truncate(time.Second)))
	}
	p.covered(f.Existing)
	if p.requests == nil {
		p.lack(false, "what is refused now, and the violation rate of requests: --metrics-url names a Prometheus that scrapes the controllers, --decisions or --server what admission recorded")
	}
	p.verdict()
}

// covered compares the number of existing resources with the number of those that have a result.
func (p *Plan) covered(existing map[Kind]int) {
	for _, kind := range slices.SortedFunc(maps.Keys(existing), func(a, b Kind) int { return cmp.Compare(a.String(), b.String()) }) {
		if without := existing[kind] - p.results[kind]; without > 0 {
			p.lack(false, fmt.Sprintf("results of %d of %d %s: the policy does not match them, or they were not evaluated yet", without, existing[kind], kind))
		}
	}
}

// allRequests adds up the requests of all namespaces; seen is false if there were none, or no metrics.
func (p *Plan) allRequests() (all Counted, seen bool) {
	for _, n := range p.Namespaces {
		if n.Requests != nil {
			all.merge(*n.Requests)
		}
	}
	return all, all.Evaluated > 0
}

func (p *Plan) worstNamespace() (rate float64, name string) {
	for _, n := range p.Namespaces {
		if n.Rate > rate {
			rate, name = n.Rate, n.Name
		}
	}
	return rate, name
}

// age compares the age of the policy with the required one.
func (p *Plan) age(f Facts) {
	t := Target{Name: "time in the cluster", Want: "1 week", Have: "-", Advice: f.MinAge == 0}
	want := auditTime
	if f.MinAge > 0 {
		want, t.Want = f.MinAge, f.MinAge.String()
	}
	known := !f.Created.IsZero()
	if known {
		p.Created = &f.Created
		t.Have = f.Now.Sub(f.Created).Truncate(time.Minute).String()
	}
	p.target(t, known, f.Now.Sub(f.Created) >= want)
}

func (p *Plan) target(t Target, known, met bool) {
	if known {
		t.Met = &met
	}
	p.Targets = append(p.Targets, t)
}

// verdict sets the verdict: anything wrong makes it unsafe; otherwise missing information that could be wrong makes it
// unknown.
func (p *Plan) verdict() {
	p.Verdict = Safe
	for _, n := range p.Namespaces {
		if !n.Safe {
			p.Verdict = Unsafe
			p.Reasons = append(p.Reasons, unsafe(n))
		}
	}
	for _, t := range p.Targets {
		if t.Met != nil && !*t.Met && !t.Advice {
			p.Verdict = Unsafe
			p.Reasons = append(p.Reasons, fmt.Sprintf("%s: %s, and the target is %s", t.Name, t.Have, t.Want))
		}
	}
	if p.Verdict == Unsafe {
		return
	}
	for _, t := range p.Targets {
		if t.Met == nil && !t.Advice {
			p.Verdict = Unknown
			p.Reasons = append(p.Reasons, t.Name+" is not known")
		}
	}
	for _, l := range p.Lacks {
		if l.Decisive {
			p.Verdict = Unknown
			p.Reasons = append(p.Reasons, "missing is "+l.What)
		}
	}
}

// resources returns the number with its noun, in the singular or the plural.
func resources(n int) string {
	if n == 1 {
		return "1 resource"
	}
	return fmt.Sprintf("%d resources", n)
}

// unsafe returns the reason why a namespace is not safe.
func unsafe(n Namespace) string {
	var why []string
	if n.Violating > 0 {
		why = append(why, fmt.Sprintf("%d of %d resources would be refused", n.Violating, n.Resources))
	}
	if n.Errors > 0 {
		why = append(why, resources(n.Errors)+" could not be evaluated")
	}
	if n.Requests != nil && n.Requests.rate() >= maxRate {
		why = append(why, fmt.Sprintf("%.1f%% of %d results of requests are violations", n.Requests.rate(), n.Requests.Evaluated))
	}
	return shownNamespace(n.Name) + ": " + strings.Join(why, ", ")
}

// shownNamespace returns a namespace's name for use in a sentence.
func shownNamespace(name string) string {
	if name == "" {
		return "cluster-scoped resources"
	}
	return "namespace " + name
}

// percentage returns a percentage, rounded down so that 100% means all.
func percentage(part, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%% of %d", float64(1000*part/of)/10, of)
}
