package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/ephor-dev/ephor/internal/admission"
	"github.com/ephor-dev/ephor/internal/deadman"
	"github.com/ephor-dev/ephor/internal/event"
	"github.com/ephor-dev/ephor/internal/observe"
	"github.com/ephor-dev/ephor/internal/settings"
	"github.com/ephor-dev/ephor/internal/webhookconf"
)

// cleanupLease is the name of the cleanup controller's lease.
const cleanupLease = "kyverno-cleanup-controller"

// cleanup is the state of the cleanup controller: its certificates, its server, and what watches over the admission
// controller from outside of it.
type cleanup struct {
	flags    *cleanupFlags
	env      env
	log      *slog.Logger
	manager  manager.Manager
	settings *settings.Store
	certs    *certificates
	events   *event.Queue
	observer observe.Server
}

// runCleanup is the cleanup controller. It returns when ctx is done and everything was finished in order.
func runCleanup(ctx context.Context, f *cleanupFlags, e env, b *base) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(f.host, strconv.Itoa(f.port)))
	if err != nil {
		return err
	}
	defer listener.Close()
	m, err := newCleanupManager(b.cfg, f, e)
	if err != nil {
		return err
	}
	c := &cleanup{flags: f, env: e, log: b.log, manager: m, settings: &settings.Store{}, observer: b.observing.server()}
	c.certs = newCertificates(f.certificateFlags, e.namespace, e.service, event.CleanupController, m, b.log)
	if c.events, err = newEvents(b.cfg, f.events, c.settings, b.observing.metrics.EventDropped, b.log); err != nil {
		return err
	}
	c.certs.events = c.events
	b.observing.observeCertificates(&c.certs.keeper)

	cacheCtx, stopCache := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCache()
	cacheDone := make(chan error, 1)
	go func() { cacheDone <- m.Start(cacheCtx) }()

	run, stop := context.WithCancel(ctx)
	defer stop()
	failures := make(chan error, 3)
	served := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		defer close(served)
		failures <- c.serve(run, listener)
		stop()
	})
	last, end := context.WithCancel(context.WithoutCancel(run))
	running.Go(func() { <-served; end() })
	running.Go(func() { c.events.Run(last) })
	running.Go(func() {
		if err := c.watch(run); err != nil && run.Err() == nil {
			failures <- err
			stop()
			return
		}
		c.log.Info("caches are filled")
		running.Go(func() { b.observing.counted(c.certs.watch()).run(run, c.log) })
		tasks := c.leaderTasks()
		for i := range tasks {
			tasks[i] = b.observing.counted(tasks[i])
		}
		if err := lead(run, b.cfg, cleanupLease, e.namespace, e.podName, f.leaderRetryPeriod, tasks, c.log); err != nil {
			failures <- err
			stop()
		}
	})
	select {
	case err = <-cacheDone:
		stop()
	case <-run.Done():
	}
	running.Wait()
	close(failures)
	for failure := range failures {
		err = errors.Join(err, failure)
	}
	return err
}

func newCleanupManager(cfg *rest.Config, f *cleanupFlags, e env) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, admissionv1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	own := map[string]cache.Config{e.namespace: {}}
	ours := labels.SelectorFromSet(labels.Set{webhookconf.ManagedLabel: webhookconf.ManagedValue})
	noDrain := time.Duration(0)
	m, err := manager.New(cfg, manager.Options{
		Scheme:                  scheme,
		LeaderElection:          false,
		Metrics:                 server.Options{BindAddress: "0"},
		HealthProbeBindAddress:  "0",
		GracefulShutdownTimeout: &noDrain,
		Cache: cache.Options{
			SyncPeriod:       &f.resyncPeriod,
			DefaultTransform: stripManagedFields,
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Secret{}:    {Namespaces: own, Transform: onlySecrets(f.certificateFlags)},
				&corev1.ConfigMap{}: {Namespaces: own, Field: fields.OneTermEqualSelector("metadata.name", e.configMap)},
				&admissionv1.ValidatingWebhookConfiguration{}: {Label: ours},
				&admissionv1.MutatingWebhookConfiguration{}:   {Label: ours},
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return m, nil
}

// watch fills the caches.
func (c *cleanup) watch(ctx context.Context) error {
	none := toolscache.ResourceEventHandlerFuncs{}
	config := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    c.configure,
		UpdateFunc: func(_, obj any) { c.configure(obj) },
		DeleteFunc: func(any) { c.settings.Set(nil) },
	}
	return watchAll(ctx, c.manager.GetCache(), []watched{
		{&corev1.Secret{}, c.certs.handler(ctx)}, {&corev1.ConfigMap{}, config},
		{&admissionv1.ValidatingWebhookConfiguration{}, none}, {&admissionv1.MutatingWebhookConfiguration{}, none},
	})
}

func (c *cleanup) configure(obj any) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok || cm.Name != c.env.configMap {
		return
	}
	s, _ := settings.Parse(cm.Data) // the admission controller tells of mistakes
	c.settings.Set(s)
}

// leaderTasks are the controllers that only one replica runs.
func (c *cleanup) leaderTasks() []task {
	tasks := c.certs.leaderTasks()
	if grace := c.flags.grace(); grace > 0 {
		watch := &deadman.Watch{
			Client: c.manager.GetClient(), Live: c.manager.GetAPIReader(),
			Lease:      client.ObjectKey{Namespace: c.env.namespace, Name: admission.HeartbeatLease},
			Annotation: admission.HeartbeatAnnotation, Grace: grace, Now: time.Now, Log: c.log, Events: c.events,
		}
		tasks = append(tasks, task{name: "dead-man", wake: newTrigger(), once: watch.Once})
	}
	return tasks
}

// serve answers over HTTPS until ctx is done.
func (c *cleanup) serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health/liveness", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /health/readiness", func(w http.ResponseWriter, _ *http.Request) {
		if err := c.certs.ready(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	server := &http.Server{
		Handler:           c.observer.HTTP(mux),
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: c.certs.get},
		ReadHeaderTimeout: 30 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      40 * time.Second, // above the longest timeout of a webhook
		IdleTimeout:       5 * time.Minute,
		ErrorLog:          slog.NewLogLogger(c.log.Handler(), slog.LevelDebug), // failed handshakes of port scanners
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(l, "", "") }()
	select {
	case err := <-ended:
		return fmt.Errorf("cleanup server: %w", err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		return errors.Join(fmt.Errorf("requests were still in flight: %w", err), server.Close())
	}
	return nil
}
