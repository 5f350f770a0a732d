package reports

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// TestTable checks which objects are reported: with background on or off, Enforce or Audit, for objects that exist before the policy and for
// new ones. Enforce denies new violations, and without background only requests are evaluated.
func TestTable(t *testing.T) {
	const ns = "report-table"
	cells := []struct {
		action     string
		background bool
		// The expected results of an object in its report; empty for none.
		oldGood, oldBad, newGood, newBad string
	}{
		{"Enforce", true, "pass", "fail", "pass", ""},
		{"Enforce", false, "", "", "pass", ""},
		{"Audit", true, "pass", "fail", "pass", "fail"},
		{"Audit", false, "", "", "pass", "fail"},
	}
	namespace(t, ns)
	cluster.Start(t, devcluster.Reports)
	name := func(i int) string {
		return fmt.Sprintf("table-%s-%v", strings.ToLower(cells[i].action), cells[i].background)
	}
	object := func(i int, age, labels string) string {
		return configMap(ns, fmt.Sprintf("%s-%s", age, name(i)), "cell: "+name(i)+labels)
	}
	var policies strings.Builder
	for i, c := range cells {
		cluster.Must(t, object(i, "old-good", ", team: a")+object(i, "old-bad", ""), "apply", "-f", "-")
		fmt.Fprintf(&policies, `---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: %s}
spec:
  background: %v
  rules:
  - name: team
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [%s], selector: {matchLabels: {cell: %s}}}}]}
    validate: {failureAction: %s, message: a team is needed, pattern: {metadata: {labels: {team: "?*"}}}}
`, name(i), c.background, ns, name(i), c.action)
	}
	apply(t, policies.String())
	// Admission leaves results to scans only after it knows what they evaluate.
	suite.Until(t, "scans of ConfigMaps are announced", func() error {
		got := cluster.Must(t, "", "get", "lease", "kyverno-reports-controller", "-n", suite.Namespace, "-o", "jsonpath={.metadata.annotations}")
		if !strings.Contains(got, "ConfigMap") {
			return fmt.Errorf("the Lease says %q", got)
		}
		return nil
	})
	for i, c := range cells {
		cluster.Must(t, object(i, "new-good", ", team: a"), "create", "-f", "-")
		_, err := cluster.Try(t, object(i, "new-bad", ""), "create", "-f", "-")
		if refused := err != nil && strings.Contains(err.Error(), "a team is needed"); refused != (c.action == "Enforce") {
			t.Errorf("%s: creating a violation: %v", name(i), err)
		}
	}
	for i, c := range cells {
		for age, want := range map[string]string{"old-good": c.oldGood, "old-bad": c.oldBad, "new-good": c.newGood, "new-bad": c.newBad} {
			says(t, ns, age+"-"+name(i), name(i), "team", want)
		}
	}
	// Missing results are still missing later.
	for i, c := range cells {
		for age, want := range map[string]string{"old-good": c.oldGood, "old-bad": c.oldBad, "new-bad": c.newBad} {
			if got := result(reportOf(t, ns, "ConfigMap", age+"-"+name(i)), name(i), "team"); got != want {
				t.Errorf("%s %s: the report says %q, want %q", age, name(i), got, want)
			}
		}
	}
}
