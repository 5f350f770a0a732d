package testrun

import (
	"fmt"
	"io"
	"strings"

	"ephor.invalid/ephor/api/cli/v1alpha1"
	"ephor.invalid/ephor/internal/wildcard"
)

// testFilter selects the expectations that are checked. Its fields are wildcards.
type testFilter struct{ policy, rule, resource string }

// parseTestFilter parses policy=…,rule=…,resource=…. It reports and skips parts that it does not understand.
func parseTestFilter(text string) (testFilter, []string) {
	f := testFilter{"*", "*", "*"}
	var mistakes []string
	for _, part := range strings.Split(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		if !ok || strings.Contains(value, "=") {
			mistakes = append(mistakes, fmt.Sprintf("Invalid test-case-selector argument (%s). Parameter must be in the form `<key>=<value>`.", part))
			continue
		}
		switch key, value = strings.TrimSpace(key), strings.TrimSpace(value); key {
		case "policy":
			f.policy = value
		case "rule":
			f.rule = value
		case "resource":
			f.resource = value
		default:
			mistakes = append(mistakes, fmt.Sprintf("Invalid test-case-selector (%s). Parameter can only be policy, rule or resource.", part))
		}
	}
	return f, mistakes
}

// apply returns the expectations that the filter selects. An empty field of an expectation matches any filter. Of the
// resources in an expectation, it keeps those that match.
func (f testFilter) apply(list []v1alpha1.TestResult) []v1alpha1.TestResult {
	var out []v1alpha1.TestResult
	for _, r := range list {
		policy := r.Policy[strings.LastIndexByte(r.Policy, '/')+1:]
		if r.Policy != "" && !wildcard.Match(f.policy, r.Policy) && !wildcard.Match(f.policy, policy) ||
			r.Rule != "" && !wildcard.Match(f.rule, r.Rule) {
			continue
		}
		if f.resource != "*" {
			if len(r.Resources) == 0 {
				r.Resources = []string{f.resource}
			} else if r.Resources = f.resources(r.Resources); len(r.Resources) == 0 {
				continue
			}
		}
		out = append(out, r)
	}
	return out
}

func (f testFilter) resources(names []string) []string {
	var out []string
	for _, n := range names {
		if wildcard.Match(f.resource, n) || wildcard.Match(f.resource, n[strings.LastIndexByte(n, '/')+1:]) {
			out = append(out, n)
		}
	}
	return out
}

func printFilterMistakes(w io.Writer, mistakes []string) {
	if len(mistakes) == 0 {
		return
	}
	fmt.Fprintln(w, "\nFilter errors:")
	for _, m := range mistakes {
		fmt.Fprintf(w, "  Error: %s\n", m)
	}
}
