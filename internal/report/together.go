package report

import (
	"cmp"
	"slices"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/names"
)

// Rule identifies the rule of a stored result.
type Rule struct {
	Source, Policy, Name string
	// Target: the results are for resources that the rule's work changes. They are separate from the results for the objects that the
	// rule itself evaluates, because only the work finds them.
	Target bool
}

// TargetProperty is a property of the results for the targets of work, whatever its value.
const TargetProperty = names.Domain + "target"

// RuleOf returns the rule of the result.
func RuleOf(r *policyreport.Result) Rule {
	out := ruleOf(ID{r.Source, r.Policy}, r.Rule)
	_, out.Target = r.Properties[TargetProperty]
	return out
}

// WithoutCovered returns the results without the covered ones: results for a target of work, if present has a result of the same rule
// from another process, such as a scan. Reports have one result of a rule for a resource.
func WithoutCovered(results, present []policyreport.Result) []policyreport.Result {
	if !slices.ContainsFunc(results, func(r policyreport.Result) bool { return RuleOf(&r).Target }) {
		return results
	}
	covering := make(map[Rule]bool, len(present))
	for i := range present {
		covering[RuleOf(&present[i])] = true
	}
	return slices.DeleteFunc(slices.Clone(results), func(r policyreport.Result) bool {
		at := RuleOf(&r)
		target := at.Target
		at.Target = false
		return target && covering[at]
	})
}

// Together merges the results of two reports about one resource. For a rule that both have, the later results win, or those of known if
// they are equally old. The result is sorted. Together changes neither list.
func Together(known, news []policyreport.Result) []policyreport.Result {
	found := func(all []policyreport.Result) map[Rule]int64 {
		out := make(map[Rule]int64, len(all))
		for i := range all {
			at := RuleOf(&all[i])
			out[at] = max(out[at], all[i].Timestamp.Seconds)
		}
		return out
	}
	before, after := found(known), found(news)
	out := make([]policyreport.Result, 0, len(known)+len(news))
	for i := range known {
		at := RuleOf(&known[i])
		if later, both := after[at]; !both || before[at] >= later {
			out = append(out, known[i])
		}
	}
	for i := range news {
		at := RuleOf(&news[i])
		if earlier, both := before[at]; !both || earlier < after[at] {
			out = append(out, news[i])
		}
	}
	Sort(out)
	return out
}

// Sort sorts the results of a report by policy, rule, source and time. Equal results keep their order.
func Sort(results []policyreport.Result) {
	slices.SortStableFunc(results, func(a, b policyreport.Result) int {
		return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Source, b.Source),
			cmp.Compare(len(a.Resources), len(b.Resources)), cmp.Compare(a.Timestamp.Seconds, b.Timestamp.Seconds))
	})
}

// Summarize counts the results of a report.
func Summarize(results []policyreport.Result) (s policyreport.Summary) {
	for i := range results {
		switch results[i].Result {
		case "pass":
			s.Pass++
		case "fail":
			s.Fail++
		case "warn":
			s.Warn++
		case "error":
			s.Error++
		case "skip":
			s.Skip++
		}
	}
	return s
}
