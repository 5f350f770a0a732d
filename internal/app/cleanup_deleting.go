package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"ephor.invalid/ephor/internal/admission"
	cleanupctl "ephor.invalid/ephor/internal/cleanup"
	"ephor.invalid/ephor/internal/control/status"
	"ephor.invalid/ephor/internal/control/webhooks"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/policyreview"
	"ephor.invalid/ephor/internal/ttl"
	"ephor.invalid/ephor/internal/webhookconf"
)

// build creates the server that reviews policies, the controller that executes them, and the watcher of TTL labels. Global context is
// refreshed until ctx is done.
func (c *cleanup) build(ctx context.Context, b *base) error {
	f, m := c.flags, c.manager
	if err := c.paths.Begin(ctx); err != nil {
		return err
	}
	resources, err := clientdiscovery.NewDiscoveryClientForConfigAndClient(b.cfg, m.GetHTTPClient())
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(b.policyConfig)
	if err != nil {
		return err
	}
	meta, err := metadata.NewForConfig(b.metadataConfig)
	if err != nil {
		return err
	}
	c.discovery, c.webhooks.Conditions = discovery.New(resources, time.Now), webhooks.NewConditions(resources)
	cluster := &cluster{cached: m.GetCache(), live: m.GetAPIReader(), Discovery: c.discovery}
	root, entries, err := lookups{
		namespace: c.env.namespace, calls: &f.calls, globals: f.globals, rights: m.GetClient(), cluster: cluster, events: c.events, log: c.log,
	}.open(ctx, b, m)
	if err != nil {
		return err
	}
	c.globals = entries
	c.server = admission.NewCleanup(admission.Options{
		Namespace: c.env.namespace, Timeout: webhookconf.ReviewTimeoutSeconds * time.Second, DrainDelay: drainDelay, Log: c.log, Now: time.Now,
		Observer: c.observing.Server(), Paths: c.paths.Answered(), Failed: c.paths.Failed, DumpPayload: f.deletion.dumpPayload,
		Review: policyreview.Options{Server: b.servers.Version, Accounts: policyreview.Accounts{Cleanup: c.account(ctx)}},
	}, root, cluster, c.ready)
	if c.ring, err = newRing(b, c.env, cleanupctl.Name); err != nil {
		return err
	}
	if c.standby, err = standingBy(b, c.env, cleanupLease, c.ring); err != nil {
		return err
	}
	c.unexempted = status.NewExceptionErrors(m.GetClient(), c.events, event.CleanupController, c.observing.Metrics, c.log)
	c.policies = cleanupctl.New(cleanupctl.Options{
		Executor: &cleanupctl.Executor{
			Resources: c.discovery, Objects: objects, Root: root, NamespaceLabels: cluster.NamespaceLabels, Settings: c.settings.Load,
			Protect: f.deletion.protectManaged, Eval: c.unexempted.Eval(c.observing.Tracer.Eval(engine.Eval)), Log: c.log,
		},
		Client: m.GetClient(), Missing: c.missing, Current: c.current, MaxDeletions: f.deletion.maxDeletions, Share: c.ring, Identity: c.env.podName, Events: c.events,
		Observer: c.observing.Metrics, Log: c.log, Now: time.Now,
	})
	c.ttl = ttl.New(ttl.Options{
		Discovery: resources, Metadata: meta, Allowed: c.allowed, Every: f.deletion.ttlInterval, MaxDeletions: f.deletion.maxDeletions,
		Share: c.ring, Namespace: c.env.namespace, Events: c.events, Observer: c.observing.Metrics, Log: c.log, Now: time.Now,
	})
	c.observing.Metrics.TTLWatched(c.ttl.Watched)
	return nil
}

// account returns the service account that deletes objects. It is empty outside a cluster; then no rights are checked.
func (c *cleanup) account(ctx context.Context) string {
	name, err := account(ctx, c.manager)
	if err == nil && strings.HasPrefix(name, "system:serviceaccount:") {
		return name
	}
	c.log.Warn("reviews of cleanup policies do not check the rights to delete: this process does not run as a service account", "user", name, "error", err)
	return ""
}

// allowed reports whether this process may use a verb on all objects of a resource.
func (c *cleanup) allowed(ctx context.Context, verb string, r schema.GroupVersionResource) (bool, error) {
	ok, _, err := c.may(ctx, cleanupctl.Right{Verb: verb, Resource: r})
	return ok, err
}

// missing returns the rights that this process lacks to execute a policy.
func (c *cleanup) missing(ctx context.Context, p *policy.Program) ([]family.MissingRight, error) {
	return cleanupctl.MissingRights(ctx, p, c.discovery, c.may)
}

// current returns a policy with its exceptions, or nil if the policy was deleted.
func (c *cleanup) current(p *policy.Program) *policy.Program {
	return c.catalog.Snapshot().Get(p.Identity())
}

// may reports whether this process has a right, and if not, the reason.
func (c *cleanup) may(ctx context.Context, r cleanupctl.Right) (ok bool, reason string, err error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.Verb, Group: r.Resource.Group, Version: r.Resource.Version, Resource: r.Resource.Resource, Namespace: r.Namespace, Name: r.Name,
		},
	}}
	if err := c.manager.GetClient().Create(ctx, review); err != nil {
		return false, "", fmt.Errorf("check our rights: %w", err)
	}
	return review.Status.Allowed, review.Status.Reason, nil
}
