package e2e

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	reportsv1 "ephor.invalid/ephor/api/reports/v1"
	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/report"
)

// Processes send results to the reports controller in one object for each resource, whichever replica writes it. It has the names that users
// know, is owned by the resource and deleted with it, and the number of objects is bounded.
func TestEphemeralReports(t *testing.T) {
	const ns = "ephemeral"
	cluster.Namespace(t, ns)
	scheme := runtime.NewScheme()
	if err := reportsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cluster.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	one, other := ephemeral.NewStore(c, ephemeral.Admission, 3, reportKeys, doubts()), ephemeral.NewStore(c, ephemeral.Admission, 3, reportKeys, doubts())
	write := func(s *ephemeral.Objects, r report.Resource, results ...policyreport.Result) bool {
		t.Helper()
		full, err := s.Write(t.Context(), &ephemeral.Report{
			Resource: r, GVR: schema.GroupVersionResource{Version: "v1", Resource: strings.ToLower(r.Kind) + "s"},
			Policies: map[string]string{"cpol.kyverno.io/p": "7"}, Results: results,
		})
		if err != nil {
			t.Fatal(err)
		}
		return full
	}
	result := func(rule, status string, seconds int64) policyreport.Result {
		r := policyreport.Result{Source: "kyverno", Policy: "p", Rule: rule, Result: policyreport.Status(status)}
		r.Timestamp.Seconds = seconds
		return r
	}
	configMap := func(name string) report.Resource {
		t.Helper()
		must(t, labelled(name, "{}"), "create", "-n", ns, "-f", "-")
		uid := must(t, "", "get", "configmap", name, "-n", ns, "-o", "jsonpath={.metadata.uid}")
		return report.Resource{APIVersion: "v1", Kind: "ConfigMap", Namespace: ns, Name: name, UID: uid}
	}
	get := func(r report.Resource) (o reportsv1.EphemeralReport, said string) {
		t.Helper()
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: r.UID + "-admission"}, &o); err != nil {
			t.Fatal(err)
		}
		for _, x := range o.Spec.Results {
			said += fmt.Sprintf("%s=%s@%d ", x.Rule, x.Result, x.Timestamp.Seconds)
		}
		return o, strings.TrimSpace(said)
	}

	a := configMap("a")
	write(one, a, result("x", "fail", 10))
	o, _ := get(a)
	for key, want := range map[string]string{
		"app.kubernetes.io/managed-by": "kyverno", "audit.kyverno.io/source": "admission", "audit.kyverno.io/resource.uid": a.UID,
		"audit.kyverno.io/resource.group": "", "audit.kyverno.io/resource.version": "v1", "audit.kyverno.io/resource.kind": "ConfigMap",
		"audit.kyverno.io/resource.gvr": "configmaps.v1", "cpol.kyverno.io/p": "7",
	} {
		if got, there := o.Labels[key]; !there || got != want {
			t.Errorf("label %s is %q", key, got)
		}
	}
	if o.Annotations["audit.kyverno.io/resource.name"] != "a" || o.Annotations["audit.kyverno.io/resource.namespace"] != ns ||
		len(o.OwnerReferences) != 1 || string(o.OwnerReferences[0].UID) != a.UID || o.Spec.Summary.Fail != 1 {
		t.Errorf("the object is %+v", o)
	}
	if out := must(t, "", "get", "ephr", "-n", ns); !strings.Contains(out, "SOURCE") || !strings.Contains(out, "admission") || !strings.Contains(out, "ConfigMap") {
		t.Error(out)
	}
	write(other, a, result("y", "pass", 11), result("x", "pass", 9))
	o, said := get(a)
	if said != "x=fail@10 y=pass@11" {
		t.Errorf("two replicas together say %s", said)
	}
	write(one, a, result("y", "pass", 20))
	if again, _ := get(a); again.ResourceVersion != o.ResourceVersion {
		t.Error("what has not changed was written again")
	}

	// An object that is being created has no UID yet, and a cluster-scoped object has no namespace.
	write(one, report.Resource{APIVersion: "v1", Kind: "ConfigMap", Namespace: ns, Name: "new"}, result("x", "pass", 10))
	uid := must(t, "", "get", "namespace", ns, "-o", "jsonpath={.metadata.uid}")
	write(one, report.Resource{APIVersion: "v1", Kind: "Namespace", Name: ns, UID: uid}, result("x", "pass", 10))
	if out := must(t, "", "get", "cephr", "-o", "name"); !strings.Contains(out, uid+"-admission") {
		t.Errorf("no object for a cluster-scoped resource among %s", out)
	}
	b := configMap("b")
	if full := write(ephemeral.NewStore(c, ephemeral.Admission, 3, reportKeys, doubts()), b, result("x", "pass", 10)); !full {
		t.Error("a fourth object was written where there may be three")
	}
	if full := write(ephemeral.NewStore(c, ephemeral.Admission, 3, reportKeys, doubts()), a, result("x", "pass", 30)); full {
		t.Error("an object that exists was kept back")
	}

	must(t, "", "delete", "configmap", "a", "-n", ns)
	eventually(t, func() error { return intermediate(t, ns, 1) })
	must(t, "", "delete", "cephr", "--all")
}

// While no controller merges results, repeated changes of the same resources do not add objects. They are merged when a controller returns.
// Without a reports controller admission sends nothing, and counts the results that it drops.
func TestReportsWithoutConsumer(t *testing.T) {
	const ns = "reports-waiting"
	cluster.Namespace(t, ns)
	r := cluster.Start(t, devcluster.Reports)
	applyPolicies(t, policyFile(t, strings.ReplaceAll(admissionReportsPolicies, "reports-admission", ns)))
	eventually(t, func() error { return scanned("ConfigMap") })
	suite.Stop(t, r)

	change := func(names ...string) {
		for _, name := range names {
			must(t, labelled(name, "{}"), "apply", "-n", ns, "-f", "-")
			for i := range 3 {
				must(t, "", "label", "configmap", name, "-n", ns, "--overwrite", "team=t"+strconv.Itoa(i))
			}
		}
	}
	most := 0
	for range 5 {
		change("one", "dry", "last")
		last := must(t, "", "get", "configmap", "last", "-n", ns, "-o", "jsonpath={.metadata.uid}")
		eventually(t, func() error { // results are written in their order
			waiting := must(t, "", "get", "ephr", "-n", ns, "-o", "name")
			if !strings.Contains(waiting, last) {
				return fmt.Errorf("no object about %s among\n%s", last, waiting)
			}
			most = max(most, strings.Count(waiting, "\n"))
			return nil
		})
		must(t, "", "delete", "configmap", "one", "dry", "last", "-n", ns)
	}
	if most > 6 { // for each of the three at most one before and one after it had its UID
		t.Errorf("%d objects wait", most)
	}
	must(t, labelled("one", "{}"), "apply", "-n", ns, "-f", "-")
	r = cluster.Start(t, devcluster.Reports)
	eventually(t, func() error {
		return reportSays(t, ns, "one", "e2e-mutate/mark pass", "e2e-scanned/team fail", "e2e-who/admin fail")
	})
	eventually(t, func() error { return intermediate(t, ns, 0) })

	suite.Stop(t, r)
	must(t, "", "delete", "lease", "kyverno-reports-controller", "-n", suite.Namespace)
	// Admission notices it a moment later, and counts the results that it does not send.
	unsent := func() int { return value(suite.Metrics(t, replica.MetricsAddr), `reason="no reports controller"`) }
	before := unsent()
	eventually(t, func() error {
		must(t, labelled("one", "{}"), "apply", "-n", ns, "-f", "-")
		must(t, "", "delete", "configmap", "one", "-n", ns)
		if unsent() == before {
			return errors.New("nothing was counted")
		}
		return nil
	})
	must(t, "", "delete", "ephr", "-n", ns, "--all")
	before = unsent()
	change("one", "dry")
	eventually(t, func() error {
		if n := unsent() - before; n < 8 {
			return fmt.Errorf("the results of %d requests were not sent, want 8", n)
		}
		return intermediate(t, ns, 0)
	})
}
