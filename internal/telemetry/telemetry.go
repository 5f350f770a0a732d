package telemetry

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

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/certs"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/http1"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/observe"
	"ephor.invalid/ephor/internal/report"
)

// Flags configure the destination of metrics and traces.
type Flags struct {
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

// Register adds the flags.
func (f *Flags) Register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.disabled, "disableMetrics", false, "disable metrics")
	fs.StringVar(&f.host, "metricsHost", "", "address on which /metrics is served; empty for all addresses")
	fs.IntVar(&f.port, "metricsPort", 8000, "port of /metrics, or of the collector with --otelConfig=grpc")
	fs.StringVar(&f.config, "otelConfig", "prometheus", "prometheus to serve metrics; grpc to send them to a collector over OTLP")
	fs.StringVar(&f.collector, "otelCollector", "opentelemetrycollector.kyverno.svc.cluster.local", "host of the metrics collector")
	fs.StringVar(&f.transportCreds, "transportCreds", "", "Secret with the CA certificate of the metrics collector; empty for a connection without TLS")
	fs.IntVar(&f.maxSeries, "maxMetricSeries", observe.DefaultMaxSeries, "maximum number of series of a metric; further series are counted together under the label \"other\"")
	f.tls.register(fs)
	fs.BoolVar(&f.tracing, "enableTracing", false, "send traces to a collector over OTLP (gRPC)")
	fs.StringVar(&f.tracingAddress, "tracingAddress", "", "host of the trace collector")
	fs.IntVar(&f.tracingPort, "tracingPort", 4317, "port of the trace collector")
	fs.StringVar(&f.tracingCreds, "tracingCreds", "", "Secret with the CA certificate of the trace collector; empty for a connection without TLS")
}

// Complete checks the flags together.
func (f *Flags) Complete() error {
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

// Telemetry holds the metrics and traces of a process. Metrics and Tracer may be nil.
type Telemetry struct {
	Metrics *observe.Metrics
	Tracer  *observe.Tracer
	flags   *Flags
	Process Process
	Log     *slog.Logger
	core    coreclient.CoreV1Interface
	// policies are the policies that the metrics count.
	policies atomic.Pointer[intake.Policies]

	mu      sync.Mutex
	keepers []*certs.Keeper
}

// Process names a process and its objects for metrics and traces.
type Process struct {
	// Name is the name of the process, such as admission.
	Name, Version, Namespace      string
	MetricsConfig, MetricsService string
}

// Start starts the metrics and traces of a process, and serves the metrics.
func Start(ctx context.Context, f *Flags, cfg *rest.Config, p Process, log *slog.Logger) (*Telemetry, error) {
	core, err := coreclient.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	o := &Telemetry{flags: f, Process: p, Log: log, core: core}
	if f.tracing {
		c, err := o.collectorAt(ctx, f.tracingAddress, f.tracingPort, f.tracingCreds)
		if err != nil {
			return nil, fmt.Errorf("--tracingCreds: %w", err)
		}
		if o.Tracer, err = observe.NewTracer(ctx, c, p.Name, p.Version, log); err != nil {
			return nil, err
		}
	}
	if f.disabled {
		return o, nil
	}
	o.Metrics = observe.NewMetrics(observe.Options{Version: p.Version, Namespace: p.Namespace, MaxSeries: f.maxSeries})
	for _, name := range []string{configName, metricsConfigName} {
		o.Metrics.Controller(name)
	}
	first, err := core.ConfigMaps(p.Namespace).Get(ctx, p.MetricsConfig, metav1.GetOptions{})
	switch {
	case err == nil:
		o.configure(first)
	case !apierrors.IsNotFound(err):
		log.Warn("the metrics ConfigMap cannot be read yet", "configMap", p.MetricsConfig, "error", err)
	}
	go o.watchConfig(ctx)
	go o.Metrics.Run(ctx)
	if f.config == "grpc" {
		c, err := o.collectorAt(ctx, f.collector, f.port, f.transportCreds)
		if err != nil {
			return nil, fmt.Errorf("--transportCreds: %w", err)
		}
		go func() {
			if err := o.Metrics.Export(ctx, c, log); err != nil {
				log.Error("metrics are not exported", "error", err)
			}
		}()
		return o, nil
	}
	return o, o.serve(ctx, cfg)
}

// serve serves /metrics until ctx is done.
func (o *Telemetry) serve(ctx context.Context, cfg *rest.Config) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(o.flags.host, strconv.Itoa(o.flags.port)))
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", o.Metrics.Handler())
	server := http1.Harden(&http.Server{Handler: mux, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)})
	context.AfterFunc(ctx, func() { _ = server.Close() })
	o.Log.Info("serving metrics", "address", listener.Addr().String())
	answer := func() error { return server.Serve(http1.Bound(listener, http1.Limits{})) }
	if o.flags.tls.on() {
		keeper, renew, err := o.flags.tls.renew(cfg, o)
		if err != nil {
			return err
		}
		go controller.RunRows(ctx, []controller.Row{renew}, o.Log, o.Rows())
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: keeper.GetCertificate}
		answer = func() error { return server.ServeTLS(http1.Bound(listener, http1.Limits{}), "", "") }
	}
	go func() {
		if err := answer(); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("stopped serving metrics", "error", err)
		}
	}()
	return nil
}

// Close sends the remaining traces.
func (o *Telemetry) Close() {
	if err := o.Tracer.Close(); err != nil {
		o.Log.Warn("traces are lost", "error", err)
	}
}

// Wrap returns the configuration of a client of the API server, whose requests are counted and traced.
func (o *Telemetry) Wrap(cfg *rest.Config, t observe.ClientType) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	if o.Metrics != nil {
		cfg.Wrap(o.Metrics.RoundTripper(t))
	}
	if o.Tracer != nil {
		cfg.Wrap(o.Tracer.RoundTripper)
	}
	return cfg
}

// Server returns the observer of an admission server.
func (o *Telemetry) Server() observe.Server {
	return observe.Server{Metrics: o.Metrics, Tracer: o.Tracer}
}

// collectorAt returns the collector for traces or metrics at an address. It reads the CA from a Secret in the namespace of the process.
func (o *Telemetry) collectorAt(ctx context.Context, host string, port int, secret string) (observe.Collector, error) {
	c := observe.Collector{Address: net.JoinHostPort(host, strconv.Itoa(port))}
	if secret == "" {
		return c, nil
	}
	s, err := o.core.Secrets(o.Process.Namespace).Get(ctx, secret, metav1.GetOptions{})
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
	return c, fmt.Errorf("the Secret %s contains no certificates under ca.crt, ca.pem, rootCA.crt or tls.crt", secret)
}

// watchConfig follows the metrics ConfigMap.
func (o *Telemetry) watchConfig(ctx context.Context) {
	name := fields.OneTermEqualSelector("metadata.name", o.Process.MetricsConfig)
	found, configured := false, false
	(&controller.Reflector[*corev1.ConfigMap]{
		From: toolscache.NewListWatchFromClient(o.core.RESTClient(), "configmaps", o.Process.Namespace, name),
		Sink: controller.Sink[*corev1.ConfigMap]{
			Begin: func() { found = false },
			Seen:  func(cm *corev1.ConfigMap) error { found, configured = true, true; o.configure(cm); return nil },
			Gone:  func(*corev1.ConfigMap) { configured = false; o.configure(&corev1.ConfigMap{}) },
			Listed: func(string) error {
				if configured && !found {
					configured = false
					o.configure(&corev1.ConfigMap{})
				}
				return nil
			},
		},
	}).Run(ctx)
}

// configure applies the metrics ConfigMap.
func (o *Telemetry) configure(cm *corev1.ConfigMap) {
	c, diags := observe.ParseConfig(cm.Data)
	for _, d := range diags {
		o.Log.Warn("the metrics ConfigMap has a mistake", "configMap", o.Process.MetricsConfig, "path", d.Path, "mistake", d.Summary)
	}
	o.Metrics.Configure(c)
	o.Metrics.Reconciled(metricsConfigName)
}

// Configured counts a read of the main ConfigMap by the process.
func (o *Telemetry) Configured() { o.Metrics.Reconciled(configName) }

// ObservePolicies sets the policies that the metrics count. If several controllers of a process follow the same policies, only the first
// call has an effect.
func (o *Telemetry) ObservePolicies(p *intake.Policies) {
	if o.policies.CompareAndSwap(nil, p) {
		o.Metrics.Policies(func() []observe.PolicyState { return policyStates(p.Catalog.Snapshot()) })
	}
}

// ObserveChanges counts future changes of these policies, but not the existing policies.
func (o *Telemetry) ObserveChanges(p *intake.Policies) {
	if o.policies.Load() == p {
		p.Observe(o.Metrics.PolicyChanged)
	}
}

// ObserveCertificates adds the certificates of another server to the metrics.
func (o *Telemetry) ObserveCertificates(keeper *certs.Keeper) {
	o.mu.Lock()
	o.keepers = append(o.keepers, keeper)
	keepers := slices.Clone(o.keepers)
	o.mu.Unlock()
	o.Metrics.Certificates(func(report func(secret string, end time.Time)) {
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
		if report.SourceOf(program) == family.SourceKyverno { // policies of the API server are not counted
			out = append(out, observe.PolicyState{Program: program, Ready: !program.Diags.HasErrors()})
		}
	}
	return out
}
