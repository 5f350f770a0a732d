package telemetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/certs"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/observe"
)

// metricsTLSFlags configure TLS for metrics.
type metricsTLSFlags struct {
	caSecret, tlsSecret string
	keyAlgorithm        string
	algorithm           certs.Algorithm // parsed from keyAlgorithm
	renewBefore         time.Duration
	serverIP            string
}

func (f *metricsTLSFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.caSecret, "metricsCASecretName", "", "Secret that holds the certificate authority of the metrics server")
	fs.StringVar(&f.tlsSecret, "metricsTLSSecretName", "", "Secret that holds the certificate of the metrics server; when set, metrics are served over TLS. Both Secrets are created if missing")
	fs.StringVar(&f.keyAlgorithm, "metricsKeyAlgorithm", "RSA", "key algorithm of the metrics server: RSA, ECDSA or Ed25519")
	fs.DurationVar(&f.renewBefore, "metricsRenewBefore", 15*24*time.Hour, "how long before expiry the certificate of the metrics server is renewed")
	fs.StringVar(&f.serverIP, "metricsServerIP", "", "address of the metrics server when it runs outside the cluster")
}

func (f *metricsTLSFlags) complete() error {
	if (f.caSecret == "") != (f.tlsSecret == "") {
		return errors.New("--metricsCASecretName and --metricsTLSSecretName go together")
	}
	var err error
	if f.algorithm, err = certs.ParseAlgorithm(f.keyAlgorithm); err != nil {
		return fmt.Errorf("--metricsKeyAlgorithm: %w", err)
	}
	return nil
}

func (f *metricsTLSFlags) on() bool { return f.tlsSecret != "" }

// renew returns the certificate, and the row that renews the certificate of the metrics server.
func (f *metricsTLSFlags) renew(cfg *rest.Config, o *Telemetry) (*certs.Keeper, controller.Row, error) {
	return o.Certificate("metrics-certificates", o.Wrap(cfg, observe.KubeClient), certs.Config{
		CASecret: f.caSecret, TLSSecret: f.tlsSecret, Algorithm: f.algorithm,
		Names: certs.ServiceNames(o.Process.MetricsService, o.Process.Namespace, f.serverIP), RenewBefore: f.renewBefore,
	})
}

// lookForCertificate is how often every replica checks for a certificate that another replica renewed.
const lookForCertificate = time.Minute

// Certificate returns a certificate in Secrets of the controller's namespace, which the metrics count, and the row that renews it. Every replica runs it, since the server
// runs without a lease. Writes include the resource version that was read, so that one of two concurrent renewals fails and starts over.
func (o *Telemetry) Certificate(name string, cfg *rest.Config, want certs.Config) (*certs.Keeper, controller.Row, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, controller.Row{}, err
	}
	c, err := discovery.NewClient(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, controller.Row{}, fmt.Errorf("connect to the API server for %s: %w", name, err)
	}
	want.Namespace = o.Process.Namespace
	keeper := &certs.Keeper{}
	o.ObserveCertificates(keeper)
	issue := &certs.Reconciler{Config: want, Client: c, Reader: c, Serving: keeper.Serving, Now: time.Now, Log: o.Log}
	return keeper, controller.Row{Name: name, Reconcile: controller.Singleton(func(ctx context.Context) (time.Duration, error) { return renewAndLoad(ctx, issue, keeper) })}, nil
}

// renewAndLoad renews a certificate if that is due, and serves the one that is stored, also if the renewal fails.
func renewAndLoad(ctx context.Context, issue *certs.Reconciler, keeper *certs.Keeper) (time.Duration, error) {
	next, failed := issue.Reconcile(ctx)
	var ca, pair corev1.Secret
	err := errors.Join(
		issue.Reader.Get(ctx, client.ObjectKey{Namespace: issue.Config.Namespace, Name: issue.Config.CASecret}, &ca),
		issue.Reader.Get(ctx, client.ObjectKey{Namespace: issue.Config.Namespace, Name: issue.Config.TLSSecret}, &pair))
	if err == nil {
		err = keeper.Load(&ca, &pair)
	}
	if failed != nil {
		return 0, failed // usually the cause of the other error, too
	}
	if next == 0 || next > lookForCertificate {
		next = lookForCertificate
	}
	return next, err
}
