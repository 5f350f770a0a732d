package soak

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// The four ways to remove an installation. The test stops the processes that a kubelet would stop in a cluster.
var removals = []struct {
	name string
	do   func(p *installation, running []*devcluster.Replica)
}{
	{"chart", func(p *installation, running []*devcluster.Replica) {
		end(running)
		p.kubectl("delete", "services,configmaps,serviceaccounts,roles,rolebindings,networkpolicies,poddisruptionbudgets", "-n", namespace,
			"-l", "app.kubernetes.io/part-of=kyverno", "--wait=false", "--ignore-not-found")
		p.kubectl("delete", "clusterroles,clusterrolebindings", "-l", "app.kubernetes.io/part-of=kyverno", "--wait=false", "--ignore-not-found")
	}},
	{"namespace", func(p *installation, running []*devcluster.Replica) {
		p.kubectl("delete", "namespace", namespace, "--wait=false", "--ignore-not-found")
		time.AfterFunc(5*time.Second, func() { end(running) }) // its Pods end a little later
	}},
	{"RBAC", func(p *installation, _ []*devcluster.Replica) {
		p.kubectl("delete", "clusterroles,clusterrolebindings", "-l", "app.kubernetes.io/part-of=kyverno", "--wait=false", "--ignore-not-found")
	}},
	{"CRDs", func(p *installation, _ []*devcluster.Replica) {
		args := []string{"delete", "--wait=false", "--ignore-not-found", "crd"}
		for _, name := range strings.Fields(p.kubectl("get", "crds", "-o", "jsonpath={.items[*].metadata.name}")) {
			if strings.HasSuffix(name, "kyverno.io") || strings.HasSuffix(name, "wgpolicyk8s.io") || strings.HasSuffix(name, "openreports.io") {
				args = append(args, name)
			}
		}
		if len(args) > 4 {
			p.kubectl(args...)
		}
	}},
}

// end stops processes, without waiting for them.
func end(running []*devcluster.Replica) {
	for _, r := range running {
		go func() { _ = r.Stop(35 * time.Second) }()
	}
}

// permutations of 0..n-1.
func permutations(n int) (out [][]int) {
	var extend func(have []int)
	extend = func(have []int) {
		if len(have) == n {
			out = append(out, append([]int{}, have...))
			return
		}
	next:
		for i := range n {
			for _, h := range have {
				if h == i {
					continue next
				}
			}
			extend(append(have, i))
		}
	}
	extend(nil)
	return out
}

// failClosed returns the webhooks of ours that fail closed.
func (p *installation) failClosed(ctx context.Context) ([]string, error) {
	var out []string
	ours := metav1.ListOptions{LabelSelector: "webhook.kyverno.io/managed-by"}
	validating, err := p.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, ours)
	if err != nil {
		return nil, err
	}
	for _, c := range validating.Items {
		for _, w := range c.Webhooks {
			if *w.FailurePolicy == "Fail" {
				out = append(out, c.Name+"/"+w.Name)
			}
		}
	}
	mutating, err := p.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, ours)
	if err != nil {
		return nil, err
	}
	for _, c := range mutating.Items {
		for _, w := range c.Webhooks {
			if *w.FailurePolicy == "Fail" {
				out = append(out, c.Name+"/"+w.Name)
			}
		}
	}
	return out, nil
}

// Chart, namespace, RBAC and CRDs are deleted in every order, one second after another, and with each of them left out: a minute later, no
// webhook that fails closed remains.
func TestUninstallInEveryOrder(t *testing.T) {
	p := install(t)
	var worst time.Duration
	var worstOrder, left string
	orders := permutations(len(removals))
	if short {
		orders = orders[:3]
	}
	for n, order := range orders {
		if n > 0 {
			p.installAgain()
		}
		running := p.start(1)
		if hooks, err := p.failClosed(t.Context()); err != nil || len(hooks) == 0 {
			t.Fatalf("nothing fails closed before: the test is void (%v)", err)
		}
		var names []string
		begin := time.Now()
		for _, i := range order {
			names = append(names, removals[i].name)
			removals[i].do(p, running)
			time.Sleep(time.Second)
		}
		clean := time.Time{}
		for time.Since(begin) < 65*time.Second {
			hooks, err := p.failClosed(t.Context())
			switch {
			case err != nil:
				t.Fatal(err)
			case len(hooks) > 0:
				clean, left = time.Time{}, fmt.Sprint(strings.Join(names, ", "), ": ", hooks)
			case clean.IsZero():
				clean = time.Now()
			}
			if !clean.IsZero() && allEnded(running) && time.Since(clean) > 3*time.Second {
				break // no running process could create them again
			}
			time.Sleep(100 * time.Millisecond)
		}
		took := 65 * time.Second
		if !clean.IsZero() {
			took, left = clean.Sub(begin), ""
		}
		t.Logf("%-40s nothing fails closed after %s", strings.Join(names, ", "), took.Round(100*time.Millisecond))
		if left != "" {
			t.Error("left: " + left)
		}
		if took > worst {
			worst, worstOrder = took, strings.Join(names, ", ")
		}
		suite.Until(p.T, "everything is gone", func() error {
			for _, r := range running {
				select {
				case <-r.Done():
				default:
					return fmt.Errorf("%s runs", r.Name)
				}
			}
			if out := p.kubectl("get", "namespace", namespace, "--ignore-not-found", "-o", "name"); out != "" {
				return fmt.Errorf("the namespace is there")
			}
			if out := p.kubectl("get", "crds", "-o", "jsonpath={.items[*].metadata.name}"); strings.Contains(out, "kyverno.io") {
				why := p.kubectl("get", "crds", "-o", `jsonpath={range .items[*]}{.metadata.name}: {.status.conditions[?(@.type=="Terminating")].message}{"\n"}{end}`)
				// After a failure ("storage is (re)initializing") the API server itself retries only after minutes.
				_, _ = p.Try(t, "", "annotate", "crds", "--all", "--overwrite", "asked-again="+time.Now().Format(time.TimeOnly))
				time.Sleep(time.Second)
				return fmt.Errorf("definitions are there:\n%s", why)
			}
			return nil
		})
	}
	figure(t, fmt.Sprintf("%d orders, nothing fails closed (%s)", len(orders), worstOrder), worst.Round(100*time.Millisecond), "within 60 s", worst <= 60*time.Second)
}

func allEnded(running []*devcluster.Replica) bool {
	for _, r := range running {
		select {
		case <-r.Done():
		default:
			return false
		}
	}
	return true
}
