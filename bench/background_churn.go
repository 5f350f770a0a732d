package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The limits of what may remain when everything was deleted while work for it was in progress.
const (
	churnErrors   = 10               // lines of the log that report errors
	churnRest     = 10 * time.Second // time without further requests
	churnAsked    = 10               // requests in that time; the admission controller sends some of its own
	churnDeadline = 30 * time.Minute
)

// churn deletes Namespaces while their work is in progress: each is deleted up to a fifth of a second after its creation.
//
// The namespace controller does not run, since it looks for 60 kinds of objects in every Namespace, which costs a fifth of a second of CPU
// time each. end does the same for the existing kinds.
func (g *backgroundBench) churn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, churnDeadline)
	defer cancel()
	began := time.Now()
	complaints := g.complaints()
	for round := range churnRounds {
		prefix := fmt.Sprintf("churn-%02d", round)
		if err := atOnce(churnNamespaces, func(i int) error {
			name := namespaceName(prefix, i)
			if err := g.makeNamespace(ctx, name); err != nil {
				return err
			}
			time.Sleep(rand.N(200 * time.Millisecond))
			return g.client.Resource(namespaces).Delete(ctx, name, metav1.DeleteOptions{})
		}); err != nil {
			return err
		}
		if err := atOnce(churnNamespaces, func(i int) error { return g.end(ctx, namespaceName(prefix, i)) }); err != nil {
			return err
		}
	}
	deleted := time.Since(began)
	if err := g.drained(ctx); err != nil {
		return err
	}
	fmt.Printf("%d Namespaces made, deleted and gone in %.0f s; no work is left after %.0f s\n",
		churnRounds*churnNamespaces, deleted.Seconds(), time.Since(began).Seconds())
	leftover, err := g.madeElsewhere(ctx, "bench-")
	if err != nil {
		return err
	}
	if err := g.drained(ctx); err != nil {
		return err
	}
	if _, err := g.audit.Next(); err != nil {
		return err
	}
	time.Sleep(churnRest)
	asked, err := g.audit.Next()
	if err != nil {
		return err
	}
	n := 0
	for _, a := range asked {
		if r := a.ObjectRef.Resource; r != "" && r != "leases" { // /livez is requested all the time
			n++
		}
	}
	peak, err := peakMB(g.controller.PID())
	if err != nil {
		return err
	}
	g.row("churn: generated objects left", "", float64(leftover), 0)
	g.row("churn: errors in the log", "", float64(g.complaints()-complaints), churnErrors)
	g.row("churn: requests at rest", "", float64(n), churnAsked)
	g.row("churn: most memory", "MB", peak, backgroundMB)
	return nil
}

// complaints returns the number of lines in the controller's log that report errors, or failed work that is retried.
func (g *backgroundBench) complaints() (n int) {
	for line := range strings.Lines(g.controller.Tail(1 << 30)) {
		if strings.Contains(line, "level=ERROR") || strings.Contains(line, "work failed") {
			n++
		}
	}
	return n
}

// end deletes the content of a Namespace that is being deleted, and finalizes it.
func (g *backgroundBench) end(ctx context.Context, name string) error {
	for _, resource := range []schema.GroupVersionResource{configMaps, networkPolicies, serviceAccounts} {
		in := g.client.Resource(resource).Namespace(name)
		for left := 1; left > 0; {
			if err := in.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				return err
			}
			list, err := in.List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			left = len(list.Items)
		}
	}
	ns, err := g.clientset.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	ns.Spec.Finalizers = nil
	_, err = g.clientset.CoreV1().Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{})
	return err
}

// madeElsewhere returns the number of generated objects in Namespaces without the prefix.
func (g *backgroundBench) madeElsewhere(ctx context.Context, prefix string) (int, error) {
	n := 0
	for _, w := range []*expected{{resource: configMaps}, {resource: networkPolicies}} {
		list, err := g.client.Resource(w.resource).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=kyverno"})
		if err != nil {
			return 0, err
		}
		for i := range list.Items {
			if list.Items[i].GetLabels()["generate.kyverno.io/policy-name"] != "" && !strings.HasPrefix(list.Items[i].GetNamespace(), prefix) {
				n++
			}
		}
	}
	return n, nil
}
