package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/certs"
	"github.com/ephor-dev/ephor/internal/family"
	"github.com/ephor-dev/ephor/internal/http1"
	"github.com/ephor-dev/ephor/internal/intake"
	"github.com/ephor-dev/ephor/internal/observe"
	"github.com/ephor-dev/ephor/internal/report"
)

// observeFlags say where metrics and traces go.
type observeFlags struct {
	disabled       bool
	host           string
	port           int
	config         string // prometheus or grpc
	collector      string
	transportCreds string
	maxSeries      int
	tls            metricsTLSFlags

	tracing        bool
	tracingAddress string
	tracingPort    int
	tracingCreds   string
}

func (f *observeFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.disabled, "disableMetrics", false, "no metrics")
	fs.StringVar(&f.host, "metricsHost", "", "address to serve /metrics on; empty for all")
	fs.IntVar(&f.port, "metricsPort", 8000, "port of /metrics, or of the collector with --otelConfig=grpc")
	fs.StringVar(&f.config, "otelConfig", "prometheus", "prometheus: metrics are served; grpc: they are sent to a collector with OTLP")
	fs.StringVar(&f.collector, "otelCollector", "opentelemetrycollector.kyverno.svc.cluster.local", "host of the collector of metrics")
	fs.StringVar(&f.transportCreds, "transportCreds", "", "Secret with the CA of the collector of metrics; empty for a connection without TLS")
	fs.IntVar(&f.maxSeries, "maxMetricSeries", observe.DefaultMaxSeries, "series that a metric may have; what is more is counted under the label \"other\"")
	f.tls.register(fs)
	fs.BoolVar(&f.tracing, "enableTracing", false, "send traces to a collector with OTLP over gRPC")
	fs.StringVar(&f.tracingAddress, "tracingAddress", "", "host of the collector of traces")
	fs.IntVar(&f.tracingPort, "tracingPort", 4317, "port of the collector of traces")
	fs.StringVar(&f.tracingCreds, "tracingCreds", "", "Secret with the CA of the collector of traces; empty for a connection without TLS")
}

func (f *observeFlags) complete() error {
	var errs []error
	if f.config != "prometheus" && f.config != "grpc" {
		errs = append(errs, fmt.Errorf("--otelConfig: %q is neither prometheus nor grpc", f.config))
	}
	if f.tracing && f.tracingAddress == "" {
		errs = append(errs, errors.New("--enableTracing needs --tracingAddress"))
	}
	if f.maxSeries < 1 {
		errs = append(errs, errors.New("--maxMetricSeries must be positive"))
	}
	errs = append(errs, f.tls.complete())
	return errors.Join(errs...)
}

// observing is what a process tells of itself. Its members may be nil.
type observing struct {
	metrics *observe.Metrics
	tracer  *observe.Tracer
	flags   *observeFlags
	env     env
	log     *slog.Logger
	core    coreclient.CoreV1Interface
	// policies are those that the metrics report.
	policies atomic.Pointer[intake.Policies]

	mu      sync.Mutex
	keepers []*certs.Keeper
}

// startObserving makes what observes, and begins to serve metrics. process names the process, such as admission.
func startObserving(ctx context.Context, f *observeFlags, cfg *rest.Config, e env, process string, log *slog.Logger) (*observing, error) {
	core, err := coreclient.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	o := &observing{flags: f, env: e, log: log, core: core}
	if f.tracing {
		c, err := o.collectorAt(ctx, f.tracingAddress, f.tracingPort, f.tracingCreds)
		if err != nil {
			return nil, fmt.Errorf("--tracingCreds: %w", err)
		}
		if o.tracer, err = observe.NewTracer(ctx, c, process, e.version, log); err != nil {
			return nil, err
		}
	}
	if f.disabled {
		return o, nil
	}
	o.metrics = observe.NewMetrics(observe.Options{Version: e.version, Namespace: e.namespace, MaxSeries: f.maxSeries})
	for _, name := range []string{configName, metricsConfigName} {
		o.metrics.Controller(name)
	}
	first, err := core.ConfigMaps(e.namespace).Get(ctx, e.metricsConfig, metav1.GetOptions{})
	switch {
	case err == nil:
		o.configure(first)
	case !apierrors.IsNotFound(err):
		log.Warn("the metrics ConfigMap cannot be read yet", "configMap", e.metricsConfig, "error", err)
	}
	go o.watchConfig(ctx)
	go o.metrics.Run(ctx)
	if f.config == "grpc" {
		c, err := o.collectorAt(ctx, f.collector, f.port, f.transportCreds)
		if err != nil {
			return nil, fmt.Errorf("--transportCreds: %w", err)
		}
		go func() {
			if err := o.metrics.Export(ctx, c, log); err != nil {
				log.Error("metrics are not exported", "error", err)
			}
		}()
		return o, nil
	}
	return o, o.serve(ctx, cfg)
}

// serve answers /metrics until ctx is done.
func (o *observing) serve(ctx context.Context, cfg *rest.Config) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(o.flags.host, strconv.Itoa(o.flags.port)))
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", o.metrics.Handler())
	server := http1.Harden(&http.Server{Handler: mux, ErrorLog: slog.NewLogLogger(o.log.Handler(), slog.LevelDebug)})
	context.AfterFunc(ctx, func() { _ = server.Close() })
	o.log.Info("metrics are served", "address", listener.Addr().String())
	answer := func() error { return server.Serve(http1.Bound(listener, http1.Limits{})) }
	if o.flags.tls.on() {
		keeper := &certs.Keeper{}
		t, err := o.flags.tls.task(cfg, o, keeper)
		if err != nil {
			return err
		}
		o.observeCertificates(keeper)
		t = o.counted(t)
		go t.Run(ctx, o.log)
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: keeper.GetCertificate}
		answer = func() error { return server.ServeTLS(http1.Bound(listener, http1.Limits{}), "", "") }
	}
	go func() {
		if err := answer(); !errors.Is(err, http.ErrServerClosed) {
			o.log.Error("metrics are no longer served", "error", err)
		}
	}()
	return nil
}

// close sends the traces that are left.
func (o *observing) close() {
	if err := o.tracer.Close(); err != nil {
		o.log.Warn("traces are lost", "error", err)
	}
}

// wrap makes the requests of a client of the API server seen.
func (o *observing) wrap(cfg *rest.Config, t observe.ClientType) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	if o.metrics != nil {
		cfg.Wrap(o.metrics.RoundTripper(t))
	}
	if o.tracer != nil {
		cfg.Wrap(o.tracer.RoundTripper)
	}
	return cfg
}

// server is the observer of an admission server.
func (o *observing) server() observe.Server {
	return observe.Server{Metrics: o.metrics, Tracer: o.tracer}
}

// collectorAt is a collector, with the CA that a Secret of the process's namespace holds.
func (o *observing) collectorAt(ctx context.Context, host string, port int, secret string) (observe.Collector, error) {
	c := observe.Collector{Address: net.JoinHostPort(host, strconv.Itoa(port))}
	if secret == "" {
		return c, nil
	}
	s, err := o.core.Secrets(o.env.namespace).Get(ctx, secret, metav1.GetOptions{})
	if err != nil {
		return c, err
	}
	roots := x509.NewCertPool()
	for _, key := range []string{"ca.crt", "ca.pem", "rootCA.crt", "tls.crt"} {
		if roots.AppendCertsFromPEM(s.Data[key]) {
			c.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
			return c, nil
		}
	}
	return c, fmt.Errorf("the Secret %s holds no certificates under ca.crt, ca.pem, rootCA.crt or tls.crt", secret)
}

// watchConfig follows the metrics ConfigMap.
func (o *observing) watchConfig(ctx context.Context) {
	name := fields.OneTermEqualSelector("metadata.name", o.env.metricsConfig)
	_, informer := toolscache.NewInformerWithOptions(toolscache.InformerOptions{
		ListerWatcher: toolscache.NewListWatchFromClient(o.core.RESTClient(), "configmaps", o.env.namespace, name),
		ObjectType:    &corev1.ConfigMap{},
		Handler: toolscache.ResourceEventHandlerFuncs{
			AddFunc:    o.configure,
			UpdateFunc: func(_, obj any) { o.configure(obj) },
			DeleteFunc: func(any) { o.configure(&corev1.ConfigMap{}) },
		},
	})
	informer.RunWithContext(ctx)
}

// configure takes over the metrics ConfigMap.
func (o *observing) configure(obj any) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return
	}
	c, diags := observe.ParseConfig(cm.Data)
	for _, d := range diags {
		o.log.Warn("the metrics ConfigMap has a mistake", "configMap", o.env.metricsConfig, "path", d.Path, "mistake", d.Summary)
	}
	o.metrics.Configure(c)
	o.metrics.Reconciled(metricsConfigName)
}

// configured counts that the main ConfigMap was taken over.
func (o *observing) configured() { o.metrics.Reconciled(configName) }

// observePolicies lets the metrics see the policies in force: those of the first controller, when a process holds several
// that follow the same ones.
func (o *observing) observePolicies(p *intake.Policies) {
	if o.policies.CompareAndSwap(nil, p) {
		o.metrics.Policies(func() []observe.PolicyState { return policyStates(p.Catalog.Snapshot()) })
	}
}

// observeChanges counts what happens to these policies from now on: what was there before is no change.
func (o *observing) observeChanges(p *intake.Policies) {
	if o.policies.Load() == p {
		p.Observe(o.metrics.PolicyChanged)
	}
}

// observeCertificates lets the metrics see the certificates of one more server.
func (o *observing) observeCertificates(keeper *certs.Keeper) {
	o.mu.Lock()
	o.keepers = append(o.keepers, keeper)
	keepers := slices.Clone(o.keepers)
	o.mu.Unlock()
	o.metrics.Certificates(func(report func(secret string, end time.Time)) {
		for _, k := range keepers {
			for _, e := range k.Expiries() {
				report(e.Secret, e.NotAfter)
			}
		}
	})
}

func policyStates(s *catalog.Snapshot) []observe.PolicyState {
	var out []observe.PolicyState
	for _, program := range s.Programs() {
		if report.SourceOf(program) == family.SourceKyverno { // the API server's own are not ours to count
			out = append(out, observe.PolicyState{Program: program, Ready: !program.Diags.HasErrors()})
		}
	}
	return out
}
