package dashboard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/certs"
	"ephor.invalid/ephor/internal/cluster"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/dashboard"
	"ephor.invalid/ephor/internal/telemetry"
	"ephor.invalid/ephor/internal/world/live"
)

// Flags configure the dashboard for reports.
type Flags struct {
	on        bool
	address   string
	port      int
	service   string
	caSecret  string
	tlsSecret string
}

// Register adds the flags.
func (f *Flags) Register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.on, "dashboard", false, "serve the dashboard, a web page that shows the reports")
	fs.StringVar(&f.address, "dashboardAddress", "", "address on which the dashboard is served; it then requires a token and shows what the user of the token may list; "+
		"empty for 127.0.0.1, where no token is required")
	fs.IntVar(&f.port, "dashboardPort", 8090, "port of the dashboard")
	fs.StringVar(&f.service, "dashboardService", "kyverno-reports-controller-dashboard", "Service of the dashboard; its certificate is issued for this name")
	fs.StringVar(&f.caSecret, "dashboardCASecretName", "", "Secret that holds the certificate authority of the dashboard")
	fs.StringVar(&f.tlsSecret, "dashboardTLSSecretName", "", "Secret that holds the certificate of the dashboard; when set, the dashboard is served over TLS. Both Secrets are created if missing")
}

// Complete checks the flags together.
func (f *Flags) Complete() error {
	var errs []error
	if (f.caSecret == "") != (f.tlsSecret == "") {
		errs = append(errs, errors.New("--dashboardCASecretName and --dashboardTLSSecretName go together"))
	}
	if f.port < 1 || f.port > 65535 {
		errs = append(errs, errors.New("--dashboardPort must be a port"))
	}
	if !f.on && f.address != "" {
		errs = append(errs, errors.New("--dashboardAddress has no effect without --dashboard"))
	}
	return errors.Join(errs...)
}

// The dashboard uses its own client, so that its users do not slow down scans.
const qps, burst = 100, 300

// Rows returns the rows with which every replica serves the dashboard; none if it is disabled. They set the clients of the options. mapper is that of the
// process.
func (f *Flags) Rows(cfg *rest.Config, mapper meta.RESTMapper, t *telemetry.Telemetry, o dashboard.Options) ([]controller.Row, error) {
	if !f.on {
		return nil, nil
	}
	own := rest.CopyConfig(cfg)
	own.QPS, own.Burst = qps, burst
	host := "127.0.0.1"
	if f.address != "" {
		host = f.address
		reviews, err := live.Reviews(own, mapper)
		if err != nil {
			return nil, err
		}
		o.Tokens, o.Access = dashboard.TokenReviews{Creator: reviews}, live.Access{Creator: reviews}
		o.As = func(token string) (rest.Interface, error) { return cluster.As(own, token) }
		if f.tlsSecret == "" {
			o.Log.Warn("the dashboard is served without TLS: tokens are sent unencrypted", "hint", "--dashboardTLSSecretName, or TLS in front of it")
		}
	}
	var err error
	if o.Client, err = cluster.Client(own); err != nil {
		return nil, fmt.Errorf("connect to the API server for the dashboard: %w", err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(f.port)))
	if err != nil {
		return nil, fmt.Errorf("serve the dashboard: %w", err)
	}
	secured, rows, err := f.tls(cfg, t)
	if err != nil {
		return nil, err
	}
	d := dashboard.New(o)
	o.Log.Info("serving the dashboard", "address", listener.Addr().String(), "tokens", o.Tokens != nil, "tls", secured != nil)
	return append(rows,
		controller.Row{Name: "dashboard-reports", Sources: []controller.Source{controller.Forever(d.Follow)}},
		controller.Row{Name: "dashboard", Sources: []controller.Source{controller.Serve(listener, func(ctx context.Context, l net.Listener) error {
			return d.Serve(ctx, l, secured)
		})}}), nil
}

// tls returns the TLS configuration of the dashboard, and the row that renews its certificate; nothing without TLS.
func (f *Flags) tls(cfg *rest.Config, t *telemetry.Telemetry) (*tls.Config, []controller.Row, error) {
	if f.tlsSecret == "" {
		return nil, nil, nil
	}
	keeper, renew, err := t.Certificate("dashboard-certificates", cfg, certs.Config{
		CASecret: f.caSecret, TLSSecret: f.tlsSecret, Algorithm: certs.ECDSA,
		Names: certs.ServiceNames(f.service, t.Process.Namespace, ""), RenewBefore: 15 * 24 * time.Hour,
	})
	if err != nil {
		return nil, nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: keeper.GetCertificate}, []controller.Row{renew}, nil
}
