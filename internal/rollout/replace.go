package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/policy"
)

// Replacement compares the results of a policy in reports with those of the policies that are to replace it.
type Replacement struct {
	Old *policy.Program
	New []*policy.Program

	old, new map[compliance.Resource]string // the worst result for each resource: what it violates, or empty
}

// Unlike is a resource for which the results differ.
type Unlike struct {
	Resource compliance.Resource `json:"resource"`
	Old      string              `json:"old"`
	New      string              `json:"new"`
}

// Add adds the results of all these policies in a report.
func (r *Replacement) Add(report compliance.Report) {
	if r.old == nil {
		r.old, r.new = map[compliance.Resource]string{}, map[compliance.Resource]string{}
	}
	for i := range report.Results {
		one := &report.Results[i]
		to := r.old
		switch {
		case isOf(one, r.Old):
		case slices.ContainsFunc(r.New, func(p *policy.Program) bool { return isOf(one, p) }):
			to = r.new
		default:
			continue
		}
		text := ""
		switch one.Result {
		case compliance.Fail, compliance.Warn:
			text = "fail (" + one.Message + ")"
		case compliance.Error:
			text = "error (" + one.Message + ")"
		}
		if to[one.Resource] == "" {
			to[one.Resource] = text
		}
	}
}

// isOf reports whether a result is of a policy.
func isOf(r *compliance.Result, p *policy.Program) bool {
	return r.Policy == p.Key() && (r.Source == "" || r.Source == cmp.Or(p.Names.Source, sourceOfPolicies))
}

// Differences returns the resources that violate only the old policy, or only the new ones, sorted. Without a result of the new policies nothing is
// known.
func (r *Replacement) Differences() (out []Unlike) {
	for resource, old := range r.old {
		if made := r.new[resource]; (old == "") != (made == "") {
			out = append(out, Unlike{resource, cmp.Or(old, "pass"), cmp.Or(made, "pass")})
		}
	}
	for resource, made := range r.new {
		if _, both := r.old[resource]; !both && made != "" {
			out = append(out, Unlike{resource, "pass", made})
		}
	}
	slices.SortFunc(out, func(a, b Unlike) int { return cmp.Compare(a.Resource.String(), b.Resource.String()) })
	return out
}

// Resources returns the numbers of resources for which the old policy and the new ones have a result.
func (r *Replacement) Resources() (old, made int) { return len(r.old), len(r.new) }

// Trial is what is known about a replacement.
type Trial struct {
	Since, Now time.Time
	Days       int // how long the policies have to run beside each other
	// Audits: some of the new policies run beside the old one. Changes: some change objects, and do not.
	Audits, Changes bool
	Old, New        int  // resources with a result
	Unread          bool // some reports could not be read
	Unlike          int  // resources, and recorded requests, for which the results differ
	Requests        int  // the recorded requests that a policy is about and that were compared; 0 without records
	NotReady        []string
}

// Blockers returns why the policies cannot be swapped yet; none if they can.
func (t Trial) Blockers() (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if t.Unlike > 0 {
		add("the results differ for %d resources or requests", t.Unlike)
	}
	for _, p := range t.NotReady {
		add("%s is not ready", p)
	}
	if t.Unread {
		add("some reports could not be read")
	}
	if t.Changes && t.Requests == 0 {
		add("policies that change objects cannot audit beside the old one: --decisions or --server has to show requests on which both are compared")
	}
	if !t.Audits {
		return out
	}
	if left := t.Since.Add(time.Duration(t.Days) * 24 * time.Hour).Sub(t.Now); left > 0 {
		add("%d days have to pass, and %s are left", t.Days, left.Round(time.Minute))
	}
	if t.Old > 0 && t.New == 0 {
		add("no report has a result of the new policies yet")
	}
	return out
}
