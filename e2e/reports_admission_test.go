package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// Admission reports results that scans do not find: of rules that read the requester, of operations other than CREATE, of mutations. They
// are in the report of the resource until the rule or the resource is deleted.
func TestReportsOfAdmission(t *testing.T) {
	const ns = "reports-admission"
	cluster.Namespace(t, ns)
	r := cluster.Start(t, devcluster.Reports)
	applyPolicies(t, policyFile(t, admissionReportsPolicies))
	eventually(t, func() error { return scanned("ConfigMap") })
	sends(t, ns)

	create := func(name, labels string, more ...string) {
		t.Helper()
		must(t, labelled(name, labels), append([]string{"create", "-n", ns, "-f", "-"}, more...)...)
	}
	create("dry", "{}", "--dry-run=server")
	create("one", "{}")
	eventually(t, func() error {
		return reportSays(t, ns, "one", "e2e-mutate/mark pass", "e2e-scanned/team fail", "e2e-who/admin fail")
	})
	eventually(t, func() error { return intermediate(t, ns, 0) })

	// An update adds the results of rules for updates; the following scan keeps them.
	must(t, "", "label", "configmap", "one", "-n", ns, "team=a")
	eventually(t, func() error {
		return reportSays(t, ns, "one", "e2e-mutate/mark skip|pass", "e2e-scanned/team pass", "e2e-updates/frozen fail", "e2e-who/admin fail")
	})

	// Another process finds all results.
	suite.Stop(t, r)
	cluster.Start(t, devcluster.Reports)
	must(t, "", "label", "configmap", "one", "-n", ns, "--overwrite", "team=b", "admin=yes")
	eventually(t, func() error {
		return reportSays(t, ns, "one", "e2e-mutate/mark skip|pass", "e2e-scanned/team pass", "e2e-updates/frozen fail", "e2e-who/admin pass")
	})

	// Results are removed with their policy, and with their resource.
	must(t, "", "delete", "clusterpolicy", "e2e-who")
	eventually(t, func() error {
		return reportSays(t, ns, "one", "e2e-mutate/mark skip|pass", "e2e-scanned/team pass", "e2e-updates/frozen fail")
	})
	must(t, "", "delete", "configmap", "one", "-n", ns)
	eventually(t, func() error {
		if _, err := reportOf(t, ns, "one"); err == nil {
			return errors.New("the report outlives its resource")
		}
		return nil
	})

	// The resource of a generated name is found by its UID. A kind that is not scanned is reported too.
	must(t, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"generateName":"made-"}}`, "create", "-n", ns, "-f", "-")
	eventually(t, func() error {
		var list policyreport.PolicyReportList
		if err := json.Unmarshal([]byte(must(t, "", "get", "polr", "-n", ns, "-o", "json")), &list); err != nil {
			return err
		}
		for _, r := range list.Items {
			if r.Scope != nil && r.Scope.Kind == "ServiceAccount" && strings.HasPrefix(r.Scope.Name, "made-") && len(r.Results) == 1 {
				return nil
			}
		}
		return errors.New("no report about the ServiceAccount with a made-up name")
	})
	eventually(t, func() error { return intermediate(t, ns, 0) })
	if _, err := reportOf(t, ns, "dry"); err == nil {
		t.Error("a dry run is reported")
	}
}

// scanned returns an error until admission knows that the kind is scanned.
func scanned(kind string) error {
	lease, err := cluster.Kubectl(context.Background(), nil, "get", "lease", "kyverno-reports-controller", "-n", suite.Namespace,
		"-o", `jsonpath={.metadata.annotations.ephor\.dev/scanned-kinds}`)
	if err == nil && !slices.Contains(strings.Split(lease, ","), kind) {
		err = fmt.Errorf("the Lease names %q, and not %s", lease, kind)
	}
	return err
}

// sends waits until admission sends results to the reports controller, whose Lease it notices some time after it was written.
func sends(t *testing.T, ns string) {
	t.Helper()
	must(t, labelled("last", "{}"), "create", "-n", ns, "-f", "-")
	asked := 0
	eventually(t, func() error {
		asked++
		must(t, "", "label", "configmap", "last", "-n", ns, "--overwrite", fmt.Sprint("asked=n", asked))
		if out := must(t, "", "get", "polr,ephr", "-n", ns, "-o", "jsonpath={.items[*].metadata.labels} {.items[*].results[*].policy}"); !strings.Contains(out, "e2e-who") {
			return errors.New("no result of the policy was sent")
		}
		return nil
	})
	must(t, "", "delete", "configmap", "last", "-n", ns)
	eventually(t, func() error {
		if out := must(t, "", "get", "polr,ephr", "-n", ns, "-o", "jsonpath={.items[*].scope.name} {.items[*].metadata.name}"); strings.Contains(out, "last") {
			return fmt.Errorf("there are\n%s", out)
		}
		return nil
	})
}

// intermediate returns an error unless the namespace has that number of EphemeralReports.
func intermediate(t *testing.T, ns string, want int) error {
	t.Helper()
	if out := must(t, "", "get", "ephr", "-n", ns, "-o", "name"); strings.Count(out, "\n") != want {
		return fmt.Errorf("there are\n%s", out)
	}
	return nil
}

// reportSays returns an error unless the report about a ConfigMap has exactly these results: "policy/rule result", where results may be
// alternatives.
func reportSays(t *testing.T, ns, name string, want ...string) error {
	t.Helper()
	r, err := reportOf(t, ns, name)
	if err != nil {
		return err
	}
	var got []string
	for _, x := range r.Results {
		got = append(got, x.Policy+"/"+x.Rule+" "+string(x.Result))
	}
	same := len(got) == len(want)
	for i := range want {
		rule, results, _ := strings.Cut(want[i], " ")
		same = same && slices.ContainsFunc(strings.Split(results, "|"), func(s string) bool { return got[i] == rule+" "+s })
	}
	if !same {
		return fmt.Errorf("the report says %q, want %q", got, want)
	}
	return nil
}

const admissionReportsPolicies = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: e2e-scanned}
spec:
  rules:
  - name: team
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [reports-admission], names: [one, dry, last]}}]}
    validate: {pattern: {metadata: {labels: {team: "?*"}}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: e2e-who}
spec:
  background: false
  rules:
  - name: admin
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [reports-admission], names: [one, dry, last]}}]}
    validate:
      message: "{{ request.userInfo.username }} has to say so"
      pattern: {metadata: {labels: {admin: "yes"}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: e2e-updates}
spec:
  rules:
  - name: frozen
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [reports-admission], names: [one, dry, last], operations: [UPDATE]}}]}
    validate: {deny: {}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: e2e-mutate}
spec:
  rules:
  - name: mark
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [reports-admission], names: [one, dry, last]}}]}
    mutate: {patchStrategicMerge: {metadata: {labels: {marked: "yes"}}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: e2e-accounts}
spec:
  background: false
  rules:
  - name: named
    match: {any: [{resources: {kinds: [ServiceAccount], namespaces: [reports-admission]}}]}
    validate: {pattern: {metadata: {labels: {team: "?*"}}}}
`

// Without scans, admission sends the results that scans find otherwise, and results of deleted rules are removed.
func TestReportsWithoutScans(t *testing.T) {
	const ns = "reports-unscanned"
	cluster.Namespace(t, ns)
	r := cluster.Start(t, devcluster.Reports, "--backgroundScan=false")
	applyPolicies(t, policyFile(t, strings.ReplaceAll(admissionReportsPolicies, "reports-admission", ns)))
	eventually(t, func() error {
		notes, err := kubectl(t, "", "get", "lease", "kyverno-reports-controller", "-n", suite.Namespace, "-o", "jsonpath={.metadata.annotations}")
		if err != nil || !strings.Contains(notes, `"ephor.dev/scanned-kinds":""`) {
			return fmt.Errorf("the Lease does not say that nothing is scanned: %s %v", notes, err)
		}
		return nil
	})
	sends(t, ns)
	must(t, labelled("one", "{}"), "apply", "-n", ns, "-f", "-")
	eventually(t, func() error {
		return reportSays(t, ns, "one", "e2e-mutate/mark pass", "e2e-scanned/team fail", "e2e-who/admin fail")
	})
	must(t, "", "delete", "clusterpolicy", "e2e-scanned")
	eventually(t, func() error { return reportSays(t, ns, "one", "e2e-mutate/mark pass", "e2e-who/admin fail") })
	// A rule that is deleted while no controller runs is noticed at the next start.
	suite.Stop(t, r)
	must(t, "", "delete", "clusterpolicy", "e2e-who")
	cluster.Start(t, devcluster.Reports, "--backgroundScan=false")
	eventually(t, func() error { return reportSays(t, ns, "one", "e2e-mutate/mark pass") })
}
