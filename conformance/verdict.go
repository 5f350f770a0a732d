package conformance

import (
	"fmt"
	"sort"
	"strings"
)

// suiteFile is the name of the Test files.
const suiteFile = "kyverno-test.yaml"

// verdict is the result of running one case.
type verdict struct {
	name     string
	policies int      // in the case
	run      int      // number of policies that need no missing feature
	results  int      // number of compared ones
	objects  int      // number of compared ones
	turned   bool     // failed, as it must, with an inverted expectation
	missing  []string // features
	failures []string
}

// summary returns the numbers of cases, and the features that the remaining ones need.
func summary(title string, verdicts []verdict) string {
	var b strings.Builder
	passed, partly, failed, results, objects, turned := 0, 0, 0, 0, 0, 0
	waiting := map[string][]string{}
	for _, v := range verdicts {
		results += v.results
		objects += v.objects
		if v.turned {
			turned++
		}
		switch {
		case len(v.failures) > 0:
			failed++
		case v.run > 0:
			passed++
			if len(v.missing) > 0 {
				partly++
			}
		}
		if v.run <= 0 && len(v.failures) == 0 || len(v.missing) > 0 {
			waiting[strings.Join(unique(v.missing), " + ")] = append(waiting[strings.Join(unique(v.missing), " + ")], v.name)
		}
	}
	fmt.Fprintf(&b, "%s: %d of %d cases pass (%d failed, %d of those that pass are run in part), %d results compared",
		title, passed, len(verdicts), failed, partly, results)
	if objects > 0 {
		fmt.Fprintf(&b, ", %d objects compared", objects)
	}
	if turned > 0 {
		fmt.Fprintf(&b, ";\n  %d of those that pass fail with an expectation turned round, %d have none to turn", turned, passed-turned)
	}
	b.WriteByte('\n')
	features := make([]string, 0, len(waiting))
	for f := range waiting {
		features = append(features, f)
	}
	sort.Slice(features, func(i, j int) bool {
		if a, b := len(waiting[features[i]]), len(waiting[features[j]]); a != b {
			return a > b
		}
		return features[i] < features[j]
	})
	for _, f := range features {
		fmt.Fprintf(&b, "  %3d wait for %s: %s\n", len(waiting[f]), f, strings.Join(waiting[f], " "))
	}
	return b.String()
}

func unique(list []string) []string {
	sort.Strings(list)
	out := list[:0:0]
	for i, s := range list {
		if i == 0 || s != list[i-1] {
			out = append(out, s)
		}
	}
	return out
}
