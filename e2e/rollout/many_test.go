package rollout

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/devcluster"
)

// Reports are read page by page, and only counts of them are kept in memory: several pages need hardly more memory than one.
func TestManyReports(t *testing.T) {
	const pages, page = 3, 500
	root, err := devcluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	c := reportsClient(t)
	var few, many int64
	for i := range pages {
		namespace := fmt.Sprintf("many-%d", i)
		cluster.Apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+namespace+"}\n")
		create(t, c, namespace, page)
		cmd := exec.Command(filepath.Join(root, "bin", "ephor"), "report", "--policy", "many-*", "-o", "json", "--kubeconfig", cluster.Kubeconfig)
		begin := time.Now()
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var s compliance.Summary
		if err := json.Unmarshal(out, &s); err != nil {
			t.Fatal(err)
		}
		if want := (i + 1) * page; s.Totals.Pass != 17*want || s.Totals.Fail != want || len(s.ByNamespace) != i+1 || len(s.ByPolicy) != 18 {
			t.Fatalf("%d reports: %+v in %d namespaces", want, s.Totals, len(s.ByNamespace))
		}
		many = cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
		if i == 0 {
			few = many
		}
		t.Logf("%d reports: %s, %d MB", (i+1)*page, time.Since(begin).Round(time.Millisecond), many)
	}
	if many > few*3/2+10 {
		t.Errorf("%d MB for %d pages of reports, and %d MB for one", many, pages, few)
	}
}

func reportsClient(t *testing.T) client.Client {
	t.Helper()
	config := *cluster.Config
	config.QPS, config.Burst = -1, -1
	c, err := client.New(&config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := policyreport.AddToScheme(c.Scheme()); err != nil {
		t.Fatal(err)
	}
	return c
}

// create creates n reports with 18 results each, one of which is a failure.
func create(t *testing.T, c client.Client, namespace string, n int) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error {
			r := &policyreport.PolicyReport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("r-%d", i)}}
			for p := range 18 {
				one := policyreport.Result{Policy: fmt.Sprintf("many-%d", p), Rule: "r", Result: "pass", Source: "kyverno", Message: strings.Repeat("m", 100)}
				if p == 0 {
					one.Result = "fail"
				}
				r.Results = append(r.Results, one)
			}
			return c.Create(t.Context(), r)
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}
