package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What may be left when everything was deleted while work for it was under way.
const (
	churnErrors   = 10               // lines of the log that tell of errors
	churnRest     = 10 * time.Second // in which nothing is asked any more
	churnAsked    = 20               // requests in that time; the admission controller has some of its own
	churnDeadline = 15 * time.Minute
)

// churn deletes Namespaces while their work is under way: each is deleted up to a fifth of a second after it was made.
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
			err := g.client.Resource(namespaces).Delete(ctx, name, metav1.DeleteOptions{})
			if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
				return nil // it goes away already
			}
			return err
		}); err != nil {
			return err
		}
	}
	deleted := time.Since(began)
	if err := g.drained(ctx); err != nil {
		return err
	}
	drained := time.Since(began)
	left, err := g.namespacesLeft(ctx)
	for err == nil && left > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d Namespaces do not end: %w", left, ctx.Err())
		case <-time.After(time.Second):
		}
		left, err = g.namespacesLeft(ctx)
	}
	if err != nil {
		return err
	}
	fmt.Printf("%d Namespaces made and deleted in %.0f s; no work is left after %.0f s, no Namespace after %.0f s\n",
		churnRounds*churnNamespaces, deleted.Seconds(), drained.Seconds(), time.Since(began).Seconds())
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
		if a.ObjectRef.Resource != "leases" {
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

// complaints is how many lines of the controller's log tell of errors.
func (g *backgroundBench) complaints() int {
	return strings.Count(g.controller.Tail(1<<30), `level=ERROR`) + strings.Count(g.controller.Tail(1<<30), `"level":"ERROR"`)
}

// namespacesLeft is how many Namespaces of the churn are there.
func (g *backgroundBench) namespacesLeft(ctx context.Context) (int, error) {
	list, err := g.client.Resource(namespaces).List(ctx, metav1.ListOptions{LabelSelector: "bench=yes", ResourceVersion: "0"})
	if err != nil {
		return 0, err
	}
	n := 0
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].GetName(), "churn-") {
			n++
		}
	}
	return n, nil
}

// madeElsewhere is how many generated objects are in Namespaces without the prefix.
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
