package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/bench/load"
	"ephor.invalid/ephor/internal/devcluster"
)

// The limits of the background controller, for policies that generate two objects for each of 1,000 Namespaces.
const (
	backgroundNamespaces = 1000
	backgroundRequests   = 4 // for each object that is generated or synchronized
	backgroundMB         = 120
	backgroundSeconds    = 60 // until the last object exists, or is synchronized
	backgroundCPU        = 5  // seconds
	churnRounds          = 20
	churnNamespaces      = 500 // in each round
)

// backgroundBench is a control plane with an admission controller and a background controller, whose requests are counted.
type backgroundBench struct {
	*bench
	cluster    *devcluster.Cluster
	client     dynamic.Interface
	clientset  kubernetes.Interface
	audit      *load.Audit
	controller *devcluster.Replica
	server     int // process of the API server
	warned     warnings
}

// warnings counts the warnings of requests.
type warnings struct{ atomic.Int64 }

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(int, string, string) { w.Add(1) }

// background measures the cost of generate rules, and that no objects remain: a copied ConfigMap and a NetworkPolicy for each of
// 1,000 Namespaces that are created at once, the update of the copies when their source changes, and 20 times 500 Namespaces that
// are deleted at once.
func (b *bench) background() error {
	ctx, cancel := context.WithTimeout(context.Background(), 45*time.Minute)
	defer cancel()
	audit, flags, err := load.NewAudit(b.dir, "kyverno")
	if err != nil {
		return err
	}
	c, err := devcluster.Start(ctx, devcluster.Options{
		Progress: os.Stdout, APIServerFlags: flags, ControllerManagerFlags: []string{"--controllers=*,-namespace-controller"},
	})
	if err != nil {
		return err
	}
	defer c.Stop()
	g := &backgroundBench{bench: b, cluster: c, audit: audit}
	var err1, err2 error
	cfg := rest.CopyConfig(c.Config)
	cfg.WarningHandler = &g.warned
	g.client, err1 = dynamic.NewForConfig(cfg)
	g.clientset, err2 = kubernetes.NewForConfig(cfg)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	ephor, err := c.InstallEphor(ctx)
	if err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, []byte(backgroundRole), "apply", "-f", "-"); err != nil {
		return err
	}
	if _, err := ephor.StartAdmission(ctx); err != nil {
		return err
	}
	if g.controller, err = ephor.Start(ctx, devcluster.Background); err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{g.generate, g.follow, g.churn} {
		if err := part(ctx); err != nil {
			b.print() // the rows that were measured before
			return fmt.Errorf("%w; the controller's log ends with:\n%s", err, g.controller.Tail(10))
		}
	}
	b.print()
	return nil
}

// generate creates 1,000 Namespaces at once.
func (g *backgroundBench) generate(ctx context.Context) error {
	if err := g.source(ctx, "first"); err != nil {
		return err
	}
	if err := g.policy(ctx, generatePolicy); err != nil {
		return err
	}
	measured, err := g.measure(ctx)
	if err != nil {
		return err
	}
	wanted := []*expected{generated(configMaps, rightSettings("first")), generated(networkPolicies, rightNetworkPolicy)}
	for _, w := range wanted {
		if err := w.watch(ctx, g.client, backgroundNamespaces); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := g.makeNamespaces(ctx, "bench", backgroundNamespaces); err != nil {
		return err
	}
	made := time.Since(began)
	last := began
	for _, w := range wanted {
		at, err := w.await()
		if err != nil {
			return err
		}
		if at.After(last) {
			last = at
		}
	}
	if err := g.drained(ctx); err != nil {
		return err
	}
	count, wrong := 0, 0
	for _, w := range wanted {
		right, bad, err := w.check(ctx, g.client)
		if err != nil {
			return err
		}
		count, wrong = count+right, wrong+bad
	}
	fmt.Printf("%d Namespaces made in %.1f s, %d with a warning; of what was made for them %d objects are right\n",
		backgroundNamespaces, made.Seconds(), g.warned.Load(), count)
	g.row("generated: wrong or missing", "", float64(wrong+2*backgroundNamespaces-count), 0)
	g.row("generated: the last is there", "s", last.Sub(began).Seconds(), backgroundSeconds)
	return measured.rows(ctx, "generated", 2*backgroundNamespaces)
}

// follow changes the source of 1,000 copies.
func (g *backgroundBench) follow(ctx context.Context) error {
	measured, err := g.measure(ctx)
	if err != nil {
		return err
	}
	copies := generated(configMaps, rightSettings("second"))
	if err := copies.watch(ctx, g.client, backgroundNamespaces); err != nil {
		return err
	}
	began := time.Now()
	if err := g.source(ctx, "second"); err != nil {
		return err
	}
	last, err := copies.await()
	if err != nil {
		return err
	}
	if err := g.drained(ctx); err != nil {
		return err
	}
	right, wrong, err := copies.check(ctx, g.client)
	if err != nil {
		return err
	}
	g.row("followed: wrong or missing", "", float64(wrong+backgroundNamespaces-right), 0)
	g.row("followed: the last follows", "s", last.Sub(began).Seconds(), backgroundSeconds)
	return measured.rows(ctx, "followed", backgroundNamespaces)
}
