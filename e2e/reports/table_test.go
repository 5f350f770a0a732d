package reports

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ephor-dev/ephor/e2e/suite"
	"github.com/ephor-dev/ephor/internal/devcluster"
)

// Who is reported of: background on or off, Enforce or Audit, objects that were there before the policy and new ones.
// Enforce keeps new violations out, and without background only requests are evaluated.
func TestTable(t *testing.T) {
	const ns = "report-table"
	cells := []struct {
		action     string
		background bool
		// what the report says of an object, empty for nothing
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
	// What scans evaluate is known before results of admission are left to them.
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
	// What is not there was not only late.
	for i, c := range cells {
		for age, want := range map[string]string{"old-good": c.oldGood, "old-bad": c.oldBad, "new-bad": c.newBad} {
			if got := result(reportOf(t, ns, "ConfigMap", age+"-"+name(i)), name(i), "team"); got != want {
				t.Errorf("%s %s: the report says %q, want %q", age, name(i), got, want)
			}
		}
	}
}
