package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/lifecycle"
	"ephor.invalid/ephor/internal/observe"
	"ephor.invalid/ephor/internal/ring"
	"ephor.invalid/ephor/internal/telemetry"
)

// base holds what all controllers of a process share.
type base struct {
	log       *slog.Logger
	observing *telemetry.Telemetry
	// servers follows the versions of the API servers, and reach whether they answer.
	servers *discovery.Servers
	reach   *lifecycle.Reachability
	// cfg is the configuration for requests to the API server; policyConfig is the one for lookups of policies.
	cfg, policyConfig *rest.Config
	// metadataConfig is the configuration for following the metadata of objects; workConfig is the one for objects that work evaluates and
	// changes.
	metadataConfig, workConfig *rest.Config
	// listen opens the port of a server.
	listen func(network, address string) (net.Listener, error)
}

// restConfig returns the configuration for requests to the API server.
func restConfig(kubeconfig string) (cfg *rest.Config, err error) {
	if kubeconfig == "" {
		cfg, err = rest.InClusterConfig()
	} else {
		cfg, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration for the API server: %w", err)
	}
	return cfg, nil
}

// connect prepares the clients of the API server, and what observes their requests.
func (f *flags) connect(ctx context.Context, e env, h Host) (b *base, err error) {
	b = &base{log: h.Log, listen: h.Listen}
	if len(f.noEffect) > 0 {
		b.log.Info("flags without effect in Ephor", "flags", strings.Join(f.noEffect, "; "))
	}
	cfg := rest.CopyConfig(h.Config)
	cfg.QPS, cfg.Burst = f.qps, f.burst
	if f.qps <= 0 {
		cfg.QPS = -1
	}
	cfg.UserAgent = "ephor-" + f.process
	cfg.Wrap(ring.Guard)
	if b.observing, err = telemetry.Start(ctx, &f.observe, cfg, telemetry.Process{
		Name: f.process, Version: e.version, Namespace: e.namespace, MetricsConfig: e.metricsConfig, MetricsService: e.metricsService,
	}, b.log); err != nil {
		return nil, err
	}
	if b.reach, err = lifecycle.NewReachability(cfg, b.log); err != nil {
		return nil, err
	}
	b.policyConfig = b.observing.Wrap(cfg, observe.DynamicClient)
	b.cfg = b.observing.Wrap(cfg, observe.KubeClient)
	b.metadataConfig = b.observing.Wrap(cfg, observe.MetadataClient)
	b.workConfig = b.observing.Wrap(cfg, observe.WorkClient)
	if b.servers, err = discovery.NewServers(b.cfg, e.namespace, b.log); err != nil {
		return nil, err
	}
	b.servers.Begin(ctx) // before the first policy is compiled
	return b, nil
}

// election returns the election of the replica that runs the rows of the leader.
func (b *base) election(f *flags, e env, lease string) *controller.Election {
	return &controller.Election{Config: b.cfg, Lease: lease, Namespace: e.namespace, Identity: e.podName, Retry: f.leaderRetryPeriod, Log: b.log}
}
