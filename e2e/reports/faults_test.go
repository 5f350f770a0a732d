package reports

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// crowd creates objects in a Namespace. A third of them violate the policies of again_test.go.
func crowd(t *testing.T, ns string, n int) {
	t.Helper()
	var objects strings.Builder
	for i := range n {
		labels := "a: b"
		if i%3 == 0 {
			labels = ""
		}
		objects.WriteString(configMap(ns, fmt.Sprint("c", i), labels))
	}
	cluster.Must(t, objects.String(), "create", "-f", "-")
}

// A controller that is killed repeatedly during the first scan leaves complete and correct reports.
func TestKilledDuringTheFirstScan(t *testing.T) {
	const ns, n = "report-kills", 300
	namespace(t, ns)
	crowd(t, ns, n)
	// It is so slow that it is killed before it ends.
	slow := []string{"--clientRateLimitQPS=20", "--clientRateLimitBurst=20", "--backgroundScanWorkers=1"}
	r := cluster.Start(t, devcluster.Reports, slow...)
	apply(t, againPolicy("kills", ns, "a"))
	seen := func() (reports, right int) {
		text := cluster.Must(t, "", "get", "polr", "-n", ns, "-o", `jsonpath={range .items[*]}{.scope.name} {.summary.pass} {.summary.fail} {.results[*].policy}{"\n"}{end}`)
		for line := range strings.Lines(text) {
			fields := strings.Fields(line)
			var i int
			if _, err := fmt.Sscanf(fields[0], "c%d", &i); err != nil {
				continue // the ConfigMap that every Namespace has
			}
			reports++
			want := " 1 0 kills"
			if i%3 == 0 {
				want = " 0 1 kills"
			}
			if strings.Join(fields[1:], " ") == want[1:] {
				right++
			}
		}
		return reports, right
	}
	suite.Until(t, "the scan has begun", func() error {
		if reports, _ := seen(); reports == 0 {
			return fmt.Errorf("there is no report")
		}
		return nil
	})
	for range 3 {
		if reports, _ := seen(); reports >= n {
			t.Errorf("the scan was over before the controller was killed")
		}
		r.Kill()
		r = cluster.Start(t, devcluster.Reports, slow...)
	}
	suite.Stop(t, r)
	cluster.Start(t, devcluster.Reports)
	suite.Until(t, "the reports are complete and right", func() error {
		if reports, right := seen(); reports != n || right != n {
			return fmt.Errorf("there are %d, %d of them right", reports, right)
		}
		return nil
	})
	// Deleted and edited reports are restored.
	names := strings.Fields(cluster.Must(t, "", "get", "polr", "-n", ns, "-o", "jsonpath={.items[*].metadata.name}"))
	cluster.Must(t, "", append([]string{"delete", "polr", "-n", ns}, names[:20]...)...)
	for _, name := range names[20:25] {
		cluster.Must(t, "", "patch", "polr", name, "-n", ns, "--type=merge", "-p", `{"summary":{"fail":9},"results":[]}`)
	}
	for _, name := range names[25:27] { // the results stay
		cluster.Must(t, "", "patch", "polr", name, "-n", ns, "--type=merge", "-p", `{"summary":{"fail":9}}`)
	}
	suite.Until(t, "the reports are complete and right again", func() error {
		if reports, right := seen(); reports != n || right != n {
			return fmt.Errorf("there are %d, %d of them right", reports, right)
		}
		return nil
	})
}

// A Namespace that is deleted during its scan leaves no reports.
func TestNamespaceDeletedDuringTheScan(t *testing.T) {
	const ns, n = "report-deleted", 200
	namespace(t, ns)
	crowd(t, ns, n)
	r := cluster.Start(t, devcluster.Reports, "--clientRateLimitQPS=40", "--clientRateLimitBurst=40")
	apply(t, againPolicy("deleted", ns, "a"))
	suite.Until(t, "the scan has begun", func() error {
		if reportOf(t, ns, "ConfigMap", "c1") == nil && reportOf(t, ns, "ConfigMap", "c0") == nil {
			return fmt.Errorf("there is no report")
		}
		return nil
	})
	cluster.Must(t, "", "delete", "namespace", ns, "--wait=false")
	// The development control plane may run without the controller that deletes the content of Namespaces, so the test deletes it.
	if _, err := cluster.Try(t, "", "delete", "configmaps", "-n", ns, "--all", "--wait=false"); err != nil {
		t.Log(err)
	}
	suite.Until(t, "no report is left", func() error {
		if got := strings.TrimSpace(cluster.Must(t, "", "get", "policyreports,ephemeralreports", "-n", ns, "-o", "name")); got != "" {
			return fmt.Errorf("there are %d", len(strings.Split(got, "\n")))
		}
		return nil
	})
	// A report about another object proves that the scan has gone on.
	const other = "report-not-deleted"
	namespace(t, other)
	cluster.Must(t, configMap(other, "subject", "a: b"), "apply", "-f", "-")
	apply(t, againPolicy("not-deleted", other, "a"))
	says(t, other, "subject", "not-deleted", "label", "pass")
	gone(t, ns)
	if n := suite.Logged(r, "result not reported"); n > 0 {
		t.Errorf("%d lines of the log complain about it", n)
	}
}
