package app

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

	"github.com/ephor-dev/ephor/internal/certs"
	"github.com/ephor-dev/ephor/internal/event"
	"github.com/ephor-dev/ephor/internal/lifecycle"
)

// certificateFlags say where the certificates of a server are and how they are made.
type certificateFlags struct {
	caSecret       string
	tlsSecret      string
	keyAlgorithm   string
	algorithm      certs.Algorithm // from keyAlgorithm
	renewBefore    time.Duration
	unmanagedCerts bool
	serverIP       string
	servicePort    int32
	paths          pathFlags
}

func (f *certificateFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.caSecret, "caSecretName", "", "Secret of the certificate authority (required)")
	fs.StringVar(&f.tlsSecret, "tlsSecretName", "", "Secret of the serving certificate (required)")
	fs.StringVar(&f.keyAlgorithm, "tlsKeyAlgorithm", "RSA", "algorithm of new keys: RSA, ECDSA or Ed25519")
	fs.DurationVar(&f.renewBefore, "renewBefore", 15*24*time.Hour, "how long before its end a certificate is renewed")
	fs.BoolVar(&f.unmanagedCerts, "disableCertManagerController", false, "leave the certificates to another tool, such as cert-manager")
	fs.StringVar(&f.serverIP, "serverIP", "", "address at which the API server reaches a process outside of the cluster")
	f.paths.register(fs)
	fs.Int32Var(&f.servicePort, "servicePort", 443, "port of the Service, as written into the webhook configurations")
}

func (f *certificateFlags) complete() error {
	var errs []error
	if f.caSecret == "" || f.tlsSecret == "" {
		errs = append(errs, errors.New("--caSecretName and --tlsSecretName are required"))
	}
	var err error
	if f.algorithm, err = certs.ParseAlgorithm(f.keyAlgorithm); err != nil {
		errs = append(errs, fmt.Errorf("--tlsKeyAlgorithm: %w", err))
	}
	return errors.Join(append(errs, f.paths.complete())...)
}

// certificates are those of one server: every replica serves them, the leader renews them.
type certificates struct {
	flags              certificateFlags
	namespace, service string
	controller         string // that reports events
	manager            manager.Manager
	log                *slog.Logger
	// changed is called when what clients have to trust may have changed.
	changed func()
	events  event.Recorder // nil for none

	keeper certs.Keeper
	wake   lifecycle.Trigger // something for the leader to do
	again  lifecycle.Trigger // something for every replica to take over in a moment

	mu      sync.Mutex
	serving string               // serial and end of what was last taken over, for the log
	trouble string               // what was last logged about a Secret that is not taken over
	warned  map[string]time.Time // by Secret, when its end was last logged
	told    map[string]time.Time // by Secret, when its end was last an event
}

func newCertificates(f certificateFlags, namespace, service, controller string, m manager.Manager, log *slog.Logger) *certificates {
	c := &certificates{
		flags: f, namespace: namespace, service: service, controller: controller, manager: m, log: log,
		changed: func() {}, wake: lifecycle.NewTrigger(), again: lifecycle.NewTrigger(), warned: map[string]time.Time{}, told: map[string]time.Time{},
	}
	c.keeper.Published = func() [][]byte {
		bundles, err := c.published(context.Background()) // from the cache
		if err != nil {
			c.log.Error("the bundles are not known", "error", err)
		}
		return bundles
	}
	return c
}

// get is for tls.Config.
func (c *certificates) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.keeper.GetCertificate(hello)
}

// ready says why the certificate cannot be served.
func (c *certificates) ready() error {
	if err := c.keeper.Verify(time.Now()); err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	return nil
}

func (c *certificates) key(secret string) client.ObjectKey {
	return client.ObjectKey{Namespace: c.namespace, Name: secret}
}

// handler follows the two Secrets.
func (c *certificates) handler(ctx context.Context) toolscache.ResourceEventHandler {
	news := func(obj any) {
		if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if s, ok := obj.(*corev1.Secret); ok && s.Name != c.flags.caSecret && s.Name != c.flags.tlsSecret {
			return
		}
		c.wake.Fire()
		if c.load(ctx) {
			c.again.Fire()
		}
		c.changed()
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: news, UpdateFunc: func(_, obj any) { news(obj) }, DeleteFunc: news}
}

// load takes the certificate over from the cache, and reports whether it is worth another try soon.
func (c *certificates) load(ctx context.Context) (again bool) {
	var ca, pair corev1.Secret
	reader := c.manager.GetCache()
	err := errors.Join(reader.Get(ctx, c.key(c.flags.caSecret), &ca), reader.Get(ctx, c.key(c.flags.tlsSecret), &pair))
	if err == nil {
		err = c.keeper.Load(&ca, &pair)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		again = errors.Is(err, certs.ErrNotTrusted)
		if text := err.Error(); text != c.trouble && len(c.keeper.Serving()) > 0 {
			c.trouble = text
			if again {
				c.log.Info("the certificate in use stays for a moment", "reason", err)
			} else {
				c.log.Warn("the certificate in use stays", "error", err)
			}
		}
		return again
	}
	c.trouble = ""
	leaf := c.keeper.Serving()[0]
	if serving := fmt.Sprint(leaf.SerialNumber, leaf.NotAfter, leaf.Signature); serving != c.serving {
		c.serving = serving
		c.log.Info("serving a certificate", "secret", pair.Name, "ends", leaf.NotAfter)
	}
	return false
}

// bundle is what clients have to trust; nil as long as there is no authority.
func (c *certificates) bundle(ctx context.Context) ([]byte, error) {
	var ca corev1.Secret
	if err := c.manager.GetCache().Get(ctx, c.key(c.flags.caSecret), &ca); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	return c.keeper.Bundle(&ca, time.Now()), nil
}

// watch is what every replica does: it looks at the Secrets again, whether there was news or not, and at the clock.
func (c *certificates) watch() lifecycle.Task {
	return lifecycle.Task{Name: "certificate-watch", Wake: c.again, Once: func(ctx context.Context) (time.Duration, error) {
		if c.load(ctx) {
			return takeOverAgain, nil
		}
		// The authority of an earlier certificate may have become superfluous.
		if bundle, err := c.bundle(ctx); err == nil && slices.ContainsFunc(c.keeper.Published(), func(b []byte) bool { return !bytes.Equal(b, bundle) }) {
			c.changed()
		}
		for _, e := range c.keeper.Expiries() {
			if c.due(c.warned, e) {
				c.log.Warn("a certificate ends soon", "secret", e.Secret, "use", e.Use, "ends", e.NotAfter, "hint", c.hint())
			}
		}
		return certs.Interval, nil
	}}
}

// takeOverAgain is how soon a certificate is tried again that clients did not trust yet.
const takeOverAgain = 250 * time.Millisecond

// remindEvery is how often the end of a certificate is reported again.
const remindEvery = time.Hour

// due reports whether the end of a certificate has to be reported now.
func (c *certificates) due(told map[string]time.Time, e certs.Expiry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !e.Ending(now) || now.Sub(told[e.Secret]) < remindEvery {
		return false
	}
	told[e.Secret] = now
	return true
}

func (c *certificates) hint() string {
	if c.flags.unmanagedCerts {
		return "--disableCertManagerController leaves its renewal to another tool"
	}
	return "it is not renewed: either the Secret lacks the label " + certs.ManagedLabel + "=" + certs.ManagedValue + ", or writing it fails"
}

// leaderTasks are what only one replica does.
func (c *certificates) leaderTasks() []lifecycle.Task {
	tell := lifecycle.Task{Name: "certificate-expiry", Wake: lifecycle.NewTrigger(), Once: func(context.Context) (time.Duration, error) {
		for _, e := range c.keeper.Expiries() {
			if c.events == nil || !c.due(c.told, e) {
				continue
			}
			c.events.Record(event.Event{
				Regarding: event.Reference{APIVersion: "v1", Kind: "Secret", Namespace: c.namespace, Name: e.Secret},
				Type:      event.Warning, Reason: "CertificateExpiring", Action: event.None, Controller: c.controller,
				Note: fmt.Sprintf("the certificate (%s) ends %s; %s", e.Use, e.NotAfter.UTC().Format(time.RFC3339), c.hint()),
			})
		}
		return certs.Interval, nil
	}}
	if c.flags.unmanagedCerts {
		return []lifecycle.Task{tell}
	}
	issue := &certs.Reconciler{
		Config: certs.Config{
			Namespace: c.namespace, CASecret: c.flags.caSecret, TLSSecret: c.flags.tlsSecret, Algorithm: c.flags.algorithm,
			Names: certs.ServiceNames(c.service, c.namespace, c.flags.serverIP), RenewBefore: c.flags.renewBefore,
		},
		Client: c.manager.GetClient(), Reader: c.manager.GetAPIReader(), Serving: c.keeper.Serving, Published: c.published,
		Now: time.Now, Log: c.log,
	}
	return []lifecycle.Task{tell, {Name: "certificates", Wake: c.wake, Once: issue.Reconcile}}
}

// published are the bundles of the webhook configurations that name our server.
func (c *certificates) published(ctx context.Context) ([][]byte, error) {
	var validating admissionv1.ValidatingWebhookConfigurationList
	var mutating admissionv1.MutatingWebhookConfigurationList
	reader := c.manager.GetCache()
	if err := errors.Join(reader.List(ctx, &validating), reader.List(ctx, &mutating)); err != nil {
		return nil, fmt.Errorf("list the webhook configurations: %w", err)
	}
	seen := map[string]bool{}
	var out [][]byte
	add := func(to admissionv1.WebhookClientConfig) {
		if c.ours(to) && !seen[string(to.CABundle)] {
			seen[string(to.CABundle)] = true
			out = append(out, to.CABundle)
		}
	}
	for _, cfg := range validating.Items {
		for _, w := range cfg.Webhooks {
			add(w.ClientConfig)
		}
	}
	for _, cfg := range mutating.Items {
		for _, w := range cfg.Webhooks {
			add(w.ClientConfig)
		}
	}
	return out, nil
}

func (c *certificates) ours(to admissionv1.WebhookClientConfig) bool {
	switch {
	case to.Service != nil:
		return to.Service.Namespace == c.namespace && to.Service.Name == c.service
	case to.URL != nil && c.flags.serverIP != "":
		return strings.HasPrefix(*to.URL, "https://"+c.flags.serverIP+"/")
	}
	return false
}
