package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/certs"
	clusterread "ephor.invalid/ephor/internal/cluster"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/dashboard"
	"ephor.invalid/ephor/internal/world/live"
)

// dashboardFlags configure the dashboard for reports.
type dashboardFlags struct {
	on        bool
	address   string
	port      int
	service   string
	caSecret  string
	tlsSecret string
}

func (f *dashboardFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.on, "dashboard", false, "serve the dashboard, a web page that shows the reports")
	fs.StringVar(&f.address, "dashboardAddress", "", "address on which the dashboard is served; it then requires a token and shows what the user of the token may list; "+
		"empty for 127.0.0.1, where no token is required")
	fs.IntVar(&f.port, "dashboardPort", 8090, "port of the dashboard")
	fs.StringVar(&f.service, "dashboardService", "kyverno-reports-controller-dashboard", "Service of the dashboard; its certificate is issued for this name")
	fs.StringVar(&f.caSecret, "dashboardCASecretName", "", "Secret that holds the certificate authority of the dashboard")
	fs.StringVar(&f.tlsSecret, "dashboardTLSSecretName", "", "Secret that holds the certificate of the dashboard; when set, the dashboard is served over TLS. Both Secrets are created if missing")
}

func (f *dashboardFlags) complete() error {
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
const dashboardQPS, dashboardBurst = 100, 300

// serveDashboard adds the rows with which every replica serves the dashboard; none if it is disabled.
func (c *reporting) serveDashboard() error {
	f := &c.flags.dashboard
	if !f.on {
		return nil
	}
	cfg := rest.CopyConfig(c.base.cfg)
	cfg.QPS, cfg.Burst = dashboardQPS, dashboardBurst
	o := dashboard.Options{Form: c.form(), Decisions: c.decisions, Cluster: c.flags.decisions.cluster, Discovery: c.discovery, Settings: c.settings.Load, Types: knownTypes, Server: c.base.servers.Version, Log: c.log, Now: time.Now}
	host := "127.0.0.1"
	if f.address != "" {
		host = f.address
		reviews, err := reviewer(cfg)
		if err != nil {
			return err
		}
		o.Tokens, o.Access = dashboard.TokenReviews{Creator: reviews}, live.Access{Creator: reviews}
		o.As = func(token string) (rest.Interface, error) { return clusterread.As(cfg, token) }
		if f.tlsSecret == "" {
			c.log.Warn("the dashboard is served without TLS: tokens are sent unencrypted", "hint", "--dashboardTLSSecretName, or TLS in front of it")
		}
	}
	var err error
	if o.Client, err = clusterread.Client(cfg); err != nil {
		return fmt.Errorf("connect to the API server for the dashboard: %w", err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(f.port)))
	if err != nil {
		return fmt.Errorf("serve the dashboard: %w", err)
	}
	secured, err := c.dashboardTLS()
	if err != nil {
		return err
	}
	d := dashboard.New(o)
	c.log.Info("serving the dashboard", "address", listener.Addr().String(), "tokens", o.Tokens != nil, "tls", secured != nil)
	c.served = append(c.served,
		controller.Row{Name: "dashboard-reports", Sources: []controller.Source{controller.Forever(d.Follow)}},
		controller.Row{Name: "dashboard", Sources: []controller.Source{controller.Func(func(ctx context.Context, _ func(string)) error {
			return d.Serve(ctx, listener, secured)
		})}})
	return nil
}

// reviewer returns a client for TokenReviews and SubjectAccessReviews.
func reviewer(cfg *rest.Config) (client.Client, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{authenticationv1.AddToScheme, authorizationv1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	c, err := client.New(cfg, client.Options{Scheme: s})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server for reviews of tokens: %w", err)
	}
	return c, nil
}

// dashboardTLS returns the TLS configuration of the dashboard, and adds the row that renews its certificate. Without TLS it returns nil.
func (c *reporting) dashboardTLS() (*tls.Config, error) {
	f, o := &c.flags.dashboard, c.base.observing
	if f.tlsSecret == "" {
		return nil, nil
	}
	keeper := &certs.Keeper{}
	t, err := o.Certificate("dashboard-certificates", c.base.cfg, keeper, certs.Config{
		CASecret: f.caSecret, TLSSecret: f.tlsSecret, Algorithm: certs.ECDSA,
		Names: certs.ServiceNames(f.service, o.Process.Namespace, ""), RenewBefore: 15 * 24 * time.Hour,
	})
	if err != nil {
		return nil, err
	}
	o.ObserveCertificates(keeper)
	c.served = append(c.served, t)
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: keeper.GetCertificate}, nil
}
