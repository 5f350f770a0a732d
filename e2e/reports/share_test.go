package reports

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
	"ephor.invalid/ephor/internal/ring"
)

// Three replicas share the namespaces, and each report is written once. When one replica dies, the others take over its share within 30
// seconds.
func TestReplicasShareNamespaces(t *testing.T) {
	const spaces = 12
	var objects strings.Builder
	var names []string
	for i := range spaces {
		ns := fmt.Sprint("report-share-", i)
		names = append(names, ns)
		namespace(t, ns)
		objects.WriteString(configMap(ns, "subject", ""))
	}
	cluster.Must(t, objects.String(), "apply", "-f", "-")
	replicas := []*devcluster.Replica{cluster.Start(t, devcluster.Reports), cluster.Start(t, devcluster.Reports), cluster.Start(t, devcluster.Reports)}
	for _, r := range replicas {
		suite.Until(t, r.Name+" shares with two others", func() error {
			if page := suite.Metrics(t, r.MetricsAddr); !regexp.MustCompile(`(?m)^ephor_ring_members\{.*\} 3$`).MatchString(page) {
				return fmt.Errorf("its log ends with\n%s", r.Tail(5))
			}
			return nil
		})
	}
	time.Sleep(ring.Settle) // a replica works on a gained share after that
	apply(t, strings.Replace(againPolicy("shared", "report-share-*", "team"), "namespaces: [", "names: [subject], namespaces: [", 1))
	// all reads everything in one request, since the test measures seconds.
	all := func(want string) func() error {
		return func() error {
			text := cluster.Must(t, "", "get", "polr", "-A", "-o", `jsonpath={range .items[?(@.scope.name=="subject")]}{.metadata.namespace} {.results[*].result} {end}`)
			for _, ns := range names {
				if !strings.Contains(text, ns+" "+want+" ") {
					return fmt.Errorf("not every report says %q: %s", want, text)
				}
			}
			return nil
		}
	}
	suite.Until(t, "all is reported", all("fail"))
	total, working := 0, 0
	for _, r := range replicas {
		n := evaluated(t, r.MetricsAddr, "shared")
		t.Logf("%s has evaluated %d", r.Name, n)
		if total += n; n > 0 {
			working++
		}
	}
	if total != spaces || working < 2 {
		t.Errorf("%d replicas evaluated %d times, there are %d objects", working, total, spaces)
	}
	for _, ns := range names {
		if r := reportOf(t, ns, "ConfigMap", "subject"); r.Generation != 1 {
			t.Errorf("the report in %s was written %d times", ns, r.Generation)
		}
	}

	replicas[0].Kill()
	killed := time.Now()
	cluster.Must(t, objects.String(), "label", "-f", "-", "team=a")
	suite.Until(t, "the others have taken over", all("pass"))
	t.Logf("the share of a dead replica was moved after %s", time.Since(killed).Round(time.Second)) // make soak requires 30 s
}
