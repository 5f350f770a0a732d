package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/flagset"
	"ephor.invalid/ephor/internal/lifecycle"
	"ephor.invalid/ephor/internal/observe"
	"ephor.invalid/ephor/internal/ring"
	"ephor.invalid/ephor/internal/telemetry"
)

// commonFlags are the flags of every process.
type commonFlags struct {
	kubeconfig        string
	qps               float32
	burst             int
	resyncPeriod      time.Duration
	leaderRetryPeriod time.Duration
	profile           profileFlags
	memory            memoryFlags
	log               logFlags
	observe           telemetry.Flags
	noEffect          []string // the flags given by the user that have no effect
}

func (f *commonFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file for access to the API server; empty inside a cluster")
	fs.Float32Var(&f.qps, "clientRateLimitQPS", 100, "maximum number of requests per second to the API server; 0 or less for no limit")
	fs.IntVar(&f.burst, "clientRateLimitBurst", 200, "maximum burst of requests to the API server")
	fs.DurationVar(&f.resyncPeriod, "resyncPeriod", 15*time.Minute, "interval at which everything is reconciled even if nothing changed")
	fs.DurationVar(&f.leaderRetryPeriod, "leaderElectionRetryPeriod", 2*time.Second, "interval between attempts to acquire or renew the leader election lease")
	f.profile.register(fs)
	f.memory.register(fs)
	f.log.register(fs)
	f.observe.Register(fs)
}

// complete checks the flags together.
func (f *commonFlags) complete(fs *pflag.FlagSet) error {
	f.noEffect = flagset.WithoutEffect(fs)
	var errs []error
	if _, err := f.log.handler(); err != nil {
		errs = append(errs, err)
	}
	if f.leaderRetryPeriod <= 0 {
		errs = append(errs, errors.New("--leaderElectionRetryPeriod must be positive"))
	}
	return errors.Join(append(errs, f.memory.complete(), f.observe.Complete())...)
}

// base holds the parts that all controllers of a process share.
type base struct {
	log       *slog.Logger
	observing *telemetry.Telemetry
	// servers follows the versions of the API servers.
	servers *discovery.Servers
	// cfg is the configuration for requests to the API server; policyConfig is the one for lookups of policies.
	cfg, policyConfig *rest.Config
	// metadataConfig is the configuration for following the metadata of objects; workConfig is the one for objects that work evaluates and
	// changes.
	metadataConfig, workConfig *rest.Config
	// listen opens the port of a server.
	listen func(network, address string) (net.Listener, error)
}

// run runs a process until it is stopped. name is the name of the process, such as admission.
func (f *commonFlags) run(ctx context.Context, name string, process func(context.Context, env, *base) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	e := environment(os.LookupEnv)
	b, err := f.start(ctx, e, name)
	if err != nil {
		return err
	}
	defer b.observing.Close()
	return process(ctx, e, b)
}

// election returns the election of the replica that runs the rows of the leader.
func (b *base) election(f commonFlags, e env, lease string) *controller.Election {
	return &controller.Election{Config: b.cfg, Lease: lease, Namespace: e.namespace, Identity: e.podName, Retry: f.leaderRetryPeriod, Log: b.log}
}

// start starts the parts that do not depend on the controllers. process is the name of the process, such as admission.
func (f *commonFlags) start(ctx context.Context, e env, process string) (*base, error) {
	b := &base{log: f.log.logger(), listen: net.Listen}
	if len(f.noEffect) > 0 {
		b.log.Info("flags without effect in Ephor", "flags", strings.Join(f.noEffect, "; "))
	}
	f.memory.tune()
	go lifecycle.ReturnMemory(ctx)
	if err := f.profile.serve(ctx, b.log); err != nil {
		return nil, err
	}
	cfg, err := restConfig(f.kubeconfig, f.qps, f.burst)
	if err != nil {
		return nil, err
	}
	return b, b.connect(ctx, f, e, process, cfg)
}

// connect prepares the clients of the API server, and what observes their requests.
func (b *base) connect(ctx context.Context, f *commonFlags, e env, process string, cfg *rest.Config) (err error) {
	cfg.UserAgent = "ephor-" + process
	cfg.Wrap(ring.Guard)
	if b.observing, err = telemetry.Start(ctx, &f.observe, cfg, telemetry.Process{
		Name: process, Version: e.version, Namespace: e.namespace, MetricsConfig: e.metricsConfig, MetricsService: e.metricsService,
	}, b.log); err != nil {
		return err
	}
	r, err := lifecycle.NewReachability(cfg, b.log)
	if err != nil {
		return err
	}
	go r.Run(ctx)
	b.policyConfig = b.observing.Wrap(cfg, observe.DynamicClient)
	b.cfg = b.observing.Wrap(cfg, observe.KubeClient)
	b.metadataConfig = b.observing.Wrap(cfg, observe.MetadataClient)
	b.workConfig = b.observing.Wrap(cfg, observe.WorkClient)
	if b.servers, err = newServers(b.cfg, e.namespace, b.log); err != nil {
		return err
	}
	b.servers.Begin(ctx) // before the first policy is compiled
	go b.servers.Run(ctx)
	return nil
}
