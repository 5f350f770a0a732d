package serving

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"ephor.invalid/ephor/internal/certs"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/webhookconf"
)

// Flags configure the certificates of a server, its address and its paths.
type Flags struct {
	CASecret       string
	TLSSecret      string
	keyAlgorithm   string
	Algorithm      certs.Algorithm // parsed from keyAlgorithm
	renewBefore    time.Duration
	unmanagedCerts bool
	ServerIP       string
	ServicePort    int32
	Paths          PathFlags
}

// Register adds the flags.
func (f *Flags) Register(fs *pflag.FlagSet) {
	fs.StringVar(&f.CASecret, "caSecretName", "", "Secret that holds the certificate authority (required)")
	fs.StringVar(&f.TLSSecret, "tlsSecretName", "", "Secret that holds the serving certificate (required)")
	fs.StringVar(&f.keyAlgorithm, "tlsKeyAlgorithm", "RSA", "key algorithm of new certificates: RSA, ECDSA or Ed25519")
	fs.DurationVar(&f.renewBefore, "renewBefore", 15*24*time.Hour, "how long before expiry a certificate is renewed")
	fs.BoolVar(&f.unmanagedCerts, "disableCertManagerController", false, "do not manage certificates; another tool, such as cert-manager, does")
	fs.StringVar(&f.ServerIP, "serverIP", "", "address at which the API server reaches this process when it runs outside the cluster")
	f.Paths.register(fs)
	fs.Int32Var(&f.ServicePort, "servicePort", 443, "port of the Service, as written into the webhook configurations")
}

// Complete checks the flags together.
func (f *Flags) Complete() error {
	var errs []error
	if f.CASecret == "" || f.TLSSecret == "" {
		errs = append(errs, errors.New("--caSecretName and --tlsSecretName are required"))
	}
	var err error
	if f.Algorithm, err = certs.ParseAlgorithm(f.keyAlgorithm); err != nil {
		errs = append(errs, fmt.Errorf("--tlsKeyAlgorithm: %w", err))
	}
	return errors.Join(append(errs, f.Paths.complete())...)
}

// Certificates holds the certificates of one server. Every replica serves them, and the leader renews them.
type Certificates struct {
	Flags              Flags
	namespace, service string
	controller         string // the controller that reports events
	manager            manager.Manager
	log                *slog.Logger
	// Changed is called when the CA bundle may have changed.
	Changed func()
	Events  event.Recorder // nil for none

	Keeper certs.Keeper
	wake   *controller.Signal // wakes the leader
	again  *controller.Signal // wakes every replica

	mu       sync.Mutex
	serving  string               // serial number and expiry of the certificate in use, for the log
	trouble  string               // the last logged error of a Secret that cannot be used
	warned   map[string]time.Time // by Secret: the time at which its expiry was last logged
	reported map[string]time.Time // by Secret: the time of the last event about its expiry
}

// NewCertificates returns the certificates of a server. reporter is the controller that reports their events.
func NewCertificates(f Flags, namespace, service, reporter string, m manager.Manager, log *slog.Logger) *Certificates {
	c := &Certificates{
		Flags: f, namespace: namespace, service: service, controller: reporter, manager: m, log: log,
		Changed: func() {}, wake: &controller.Signal{}, again: &controller.Signal{}, warned: map[string]time.Time{}, reported: map[string]time.Time{},
	}
	c.Keeper.Name = certs.ServiceNames(service, namespace, f.ServerIP).Host()
	c.Keeper.Published = func() [][]byte {
		bundles, err := c.published(context.Background()) // reads the cache
		if err != nil {
			c.log.Error("the CA bundles of the webhook configurations are unknown", "error", err)
		}
		return bundles
	}
	return c
}

// Get implements tls.Config.GetCertificate.
func (c *Certificates) Get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.Keeper.GetCertificate(hello)
}

// Ready returns the reason why the certificate cannot be served yet.
func (c *Certificates) Ready() error {
	if err := c.Keeper.Verify(time.Now()); err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	return nil
}

func (c *Certificates) key(secret string) client.ObjectKey {
	return client.ObjectKey{Namespace: c.namespace, Name: secret}
}

// Handler follows the two Secrets.
func (c *Certificates) Handler(ctx context.Context) toolscache.ResourceEventHandler {
	news := func(obj any) {
		if s, ok := intake.Deleted(obj).(*corev1.Secret); ok && s.Name != c.Flags.CASecret && s.Name != c.Flags.TLSSecret {
			return
		}
		c.wake.Fire()
		if c.load(ctx) {
			c.again.Fire()
		}
		c.Changed()
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: news, UpdateFunc: func(_, obj any) { news(obj) }, DeleteFunc: news}
}

// load reads the certificate from the cache and serves it. It reports whether the caller should try again soon.
func (c *Certificates) load(ctx context.Context) (again bool) {
	var ca, pair corev1.Secret
	reader := c.manager.GetCache()
	err := errors.Join(reader.Get(ctx, c.key(c.Flags.CASecret), &ca), reader.Get(ctx, c.key(c.Flags.TLSSecret), &pair))
	if err == nil {
		err = c.Keeper.Load(&ca, &pair)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		again = errors.Is(err, certs.ErrNotTrusted)
		if text := err.Error(); text != c.trouble && len(c.Keeper.Serving()) > 0 {
			c.trouble = text
			if again {
				c.log.Info("keeping the current certificate for now", "reason", err)
			} else {
				c.log.Warn("keeping the current certificate", "error", err)
			}
		}
		return again
	}
	c.trouble = ""
	leaf := c.Keeper.Serving()[0]
	if serving := fmt.Sprint(leaf.SerialNumber, leaf.NotAfter, leaf.Signature); serving != c.serving {
		c.serving = serving
		c.log.Info("serving a certificate", "secret", pair.Name, "ends", leaf.NotAfter)
		if err := c.Keeper.Refused(time.Now()); err != nil {
			c.log.Warn("API servers refuse the certificate, so webhooks that fail closed deny all their requests", "secret", pair.Name, "error", err)
		}
	}
	return false
}

// Bundle returns the CA bundle that clients must trust, or nil if there is no authority yet.
func (c *Certificates) Bundle(ctx context.Context) ([]byte, error) {
	var ca corev1.Secret
	if err := c.manager.GetCache().Get(ctx, c.key(c.Flags.CASecret), &ca); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	return c.Keeper.Bundle(&ca, time.Now()), nil
}

// Watch returns the row that every replica runs: it reads the Secrets again after events and at intervals, and warns of certificates that
// expire soon.
func (c *Certificates) Watch() controller.Row {
	return controller.Row{Name: "certificate-watch", Sources: []controller.Source{c.again}, Reconcile: func(ctx context.Context, _ string) (time.Duration, error) {
		if c.load(ctx) {
			return takeOverAgain, nil
		}
		// The authority of an earlier certificate may no longer be needed.
		if bundle, err := c.Bundle(ctx); err == nil && slices.ContainsFunc(c.Keeper.Published(), func(b []byte) bool { return !bytes.Equal(b, bundle) }) {
			c.Changed()
		}
		for _, e := range c.Keeper.Expiries() {
			if c.due(c.warned, e) {
				c.log.Warn("a certificate ends soon", "secret", e.Secret, "use", e.Use, "ends", e.NotAfter, "hint", c.hint())
			}
		}
		return certs.Interval, nil
	}}
}

// takeOverAgain is the pause before another attempt to serve a certificate that clients did not trust yet.
const takeOverAgain = 250 * time.Millisecond

// remindEvery is the pause between two reports about the expiry of a certificate.
const remindEvery = time.Hour

// due reports whether the expiry of a certificate must be reported now.
func (c *Certificates) due(reported map[string]time.Time, e certs.Expiry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !e.Ending(now) || now.Sub(reported[e.Secret]) < remindEvery {
		return false
	}
	reported[e.Secret] = now
	return true
}

func (c *Certificates) hint() string {
	if c.Flags.unmanagedCerts {
		return "--disableCertManagerController leaves its renewal to another tool"
	}
	return "it is not renewed: either the Secret lacks the label " + certs.ManagedLabel + "=" + certs.ManagedValue + ", or writing it fails"
}

// Renew returns the rows of the leader: they report certificates that expire soon, and renew them.
func (c *Certificates) Renew() []controller.Row {
	tell := controller.Row{Name: "certificate-expiry", Owner: controller.Leader, Reconcile: func(context.Context, string) (time.Duration, error) {
		for _, e := range c.Keeper.Expiries() {
			if c.Events == nil || !c.due(c.reported, e) {
				continue
			}
			c.Events.Record(event.Event{
				Regarding: event.Reference{APIVersion: "v1", Kind: "Secret", Namespace: c.namespace, Name: e.Secret},
				Type:      event.Warning, Reason: "CertificateExpiring", Action: event.None, Controller: c.controller,
				Note: fmt.Sprintf("the certificate (%s) expires %s; %s", e.Use, e.NotAfter.UTC().Format(time.RFC3339), c.hint()),
			})
		}
		return certs.Interval, nil
	}}
	if c.Flags.unmanagedCerts {
		return []controller.Row{tell}
	}
	issue := &certs.Reconciler{
		Config: certs.Config{
			Namespace: c.namespace, CASecret: c.Flags.CASecret, TLSSecret: c.Flags.TLSSecret, Algorithm: c.Flags.Algorithm,
			Names: certs.ServiceNames(c.service, c.namespace, c.Flags.ServerIP), RenewBefore: c.Flags.renewBefore,
		},
		Client: c.manager.GetClient(), Reader: c.manager.GetAPIReader(), Serving: c.Keeper.Serving, Published: c.published,
		Now: time.Now, Log: c.log,
	}
	return []controller.Row{tell, {Name: "certificates", Owner: controller.Leader, Sources: []controller.Source{c.wake}, Reconcile: controller.Singleton(issue.Reconcile)}}
}

// published returns the CA bundles of the webhook configurations that call our server.
func (c *Certificates) published(ctx context.Context) ([][]byte, error) {
	configurations, err := webhookconf.List(ctx, c.manager.GetCache())
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var out [][]byte
	for _, o := range configurations {
		for _, to := range webhookconf.ServersOf(o) {
			if c.Ours(to) && !seen[string(to.CABundle)] {
				seen[string(to.CABundle)] = true
				out = append(out, to.CABundle)
			}
		}
	}
	return out, nil
}

// Ours reports whether a webhook calls our server.
func (c *Certificates) Ours(to admissionv1.WebhookClientConfig) bool {
	switch {
	case to.Service != nil:
		return to.Service.Namespace == c.namespace && to.Service.Name == c.service
	case to.URL != nil && c.Flags.ServerIP != "":
		return strings.HasPrefix(*to.URL, "https://"+c.Flags.ServerIP+"/")
	}
	return false
}
