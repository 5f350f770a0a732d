package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientdiscovery "k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/app/webhookserver"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/policyreview"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/status"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/webhookconf"
)

// webhookReconciler reconciles the webhook configurations, and then the policies' status, with the catalog.
type webhookReconciler struct {
	catalog   *catalog.Catalog
	policies  *intake.Policies
	settings  *settings.Store
	discovery *discovery.Discovery
	// conditions checks match conditions.
	conditions *webhookconf.Conditions
	options    webhookconf.Options
	reader     client.Reader // reads from the cache
	certs      *webhookserver.Certificates
	paths      *webhookserver.Paths
	unlocked   *webhookserver.Unlocked
	heartbeat  *webhookserver.Heartbeat
	// installation owns the configurations.
	installation *webhookserver.Installation
	apply        *webhookconf.Reconciler
	offenders    *webhookconf.Offenders
	status       *status.Writer
	// withholds reports whether a policy may not use the login of the installation for registries.
	withholds func(*policy.Program) bool
	rights    *scanRights
	// asked caches answers about rights. work is the account that executes the work of policies; empty if unknown.
	asked  *answers
	work   string
	lacked map[policy.ID]string // the missing rights of the account, as last reported
	events event.Recorder
	log    *slog.Logger

	// inForce holds the Programs whose webhooks are written.
	inForce atomic.Pointer[map[*policy.Program]bool]

	leftOut atomic.Pointer[leftOut]

	unconfined []string // the last logged value of webhookconf.Configurations.Unconfined
}

// newConditions returns the check of match conditions for the API server of the client.
func newConditions(client clientdiscovery.ServerVersionInterface) *webhookconf.Conditions {
	compatible := &discovery.Compatible{Client: client, Now: time.Now}
	return &webhookconf.Conditions{Version: compatible.Version}
}

// configured reports whether the webhook configurations hold the webhooks of the Program.
func (f *webhookReconciler) configured(p *policy.Program) bool {
	now := f.inForce.Load()
	return now != nil && (*now)[p]
}

// webhookFlags configure the webhook configurations.
type webhookFlags struct {
	follow, excludeBootstrap, derive, subresources bool
}

func (f *webhookFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.follow, "autoUpdateWebhooks", true, "update the resource webhooks when policies change; when false, they are created once, for all requests, and not changed")
	fs.BoolVar(&f.excludeBootstrap, "excludeBootstrapResources", false, "never include Nodes and CertificateSigningRequests in webhooks that fail closed, even if a policy names them")
	fs.BoolVar(&f.derive, "deriveMatchConditions", true, "derive the match conditions of webhooks from the policies, so that the API server sends only requests to which a policy may apply")
	fs.BoolVar(&f.subresources, "podSubresources", true, "ask ValidatingPolicies and ImageValidatingPolicies on updates of Pods also about pods/ephemeralcontainers and pods/resize, even if they do not list them")
}

// retryUnknown is the pause before a kind that the API server did not serve is looked up again. retrySettling is the pause while the kind
// may be served soon.
const (
	retryUnknown  = 30 * time.Second
	retrySettling = 300 * time.Millisecond
)

// warnUnconfined logs the webhooks that are called for all namespaces because of namespaced policies, whenever the list changes.
func (f *webhookReconciler) warnUnconfined(webhooks []string) {
	if slices.Equal(webhooks, f.unconfined) {
		return
	}
	if f.unconfined = webhooks; len(webhooks) > 0 {
		f.log.Warn("the webhooks of namespaced policies are called for all namespaces: the names of the namespaces with policies exceed 64 KiB, the limit of a match condition; "+
			"use cluster-wide policies with a namespaceSelector instead of a policy in each namespace", "webhooks", webhooks)
		return
	}
	f.log.Info("the webhooks of namespaced policies are called only for their namespaces again")
}

// once runs one round: it writes the webhook configurations with the current paths, and then the status.
func (f *webhookReconciler) once(ctx context.Context) (time.Duration, error) {
	return f.paths.Round(ctx, f.unlocked, f.write)
}

// write writes the configurations with these paths, and then the status. It returns whether all configurations were written. It reads the
// objects before the snapshot, so that it never writes a status for a policy whose Program is older than the object.
func (f *webhookReconciler) write(ctx context.Context, path func(string) string) (all bool, again time.Duration, err error) {
	objects, broken := f.policies.All()
	programs := f.catalog.Snapshot().Programs()
	bundle, err := f.certs.Bundle(ctx)
	if err != nil {
		return false, 0, err
	}
	if bundle == nil {
		f.log.Info("waiting for the certificate authority", "secret", f.certs.Flags.CASecret)
		return false, 0, nil // the creation of the missing object starts another round
	}
	if leaving, err := f.installation.Terminating(ctx); err != nil || leaving {
		return false, 0, err // the configurations are deleted and must not be created again
	}
	owner, err := f.installation.Owner(ctx)
	if err != nil {
		return false, 0, err
	}
	stored, err := f.apply.Stored(ctx)
	if err != nil {
		return false, 0, err
	}
	settling := f.discovery.Settling()
	options := f.options
	options.Path = path
	written, left := f.offenders.Split(programs)
	input := webhookconf.Input{
		Programs: written, Settings: f.settings.Load(), CABundle: bundle, Resources: f.discovery, Options: options,
		Conditions: f.conditions, Owner: owner, Stored: stored, Settling: settling,
	}
	want, ready, unknown, err := webhookconf.Desired(input)
	if err != nil {
		return false, 0, err
	}
	maps.Copy(ready, left)
	f.countLeftOut(ctx, programs, ready)
	f.warnUnconfined(want.Unconfined)
	if owner == nil {
		for key := range ready {
			ready[key] = webhookserver.ErrNoOwner
		}
	} else {
		if err := f.keepFailOpen(ctx, want); err != nil {
			return false, 0, err
		}
		switch _, err := f.apply.Apply(ctx, want); {
		case apierrors.IsConflict(err), errors.Is(err, webhookserver.ErrUnlocked):
			return false, webhookserver.RetryConflict, nil // the cache is older than a write, usually our own
		case err != nil:
			found, wait, failed := f.offenders.Find(ctx, input, want)
			if found {
				f.log.Warn("the API server rejects webhook configurations because of policies, which are left out", "error", err)
				return false, webhookserver.RetryConflict, nil
			}
			return false, wait, errors.Join(err, failed)
		}
		all = true
		f.offenders.Accept(written)
		now := make(map[*policy.Program]bool, len(programs))
		for _, p := range programs {
			now[p] = true
		}
		f.inForce.Store(&now)
	}
	mistakes := map[string]error{} // mistakes of policies that were stored without our review
	byID := make(map[policy.ID]*policy.Program, len(programs))
	for _, p := range programs {
		byID[p.Identity()] = p
		if err := p.Diags.Errors().Err(); err != nil {
			mistakes[webhookconf.ProgramKey(p)] = err
		}
	}
	var failed error
	f.asked.round()
	lacking, working := false, false
	maps.DeleteFunc(f.lacked, func(id policy.ID, _ string) bool { return objects[id] == nil })
	for id, object := range objects {
		key := id.String()
		notReady, known := ready[key]
		if err := broken[id]; err != nil {
			notReady = err
		} else if !known {
			continue // its compilation ends soon and starts the next round
		} else if err := mistakes[key]; err != nil && notReady == nil {
			notReady = err
		}
		if errors.Is(notReady, webhookconf.ErrSettling) {
			if status.IsNew(f.status.Families, object) {
				continue // a policy must not be reported as ready before it is enforced
			}
			notReady = nil
		}
		if notReady != nil {
			f.log.Warn("policy is not ready", "policy", key, "error", notReady)
		}
		state := family.State{Program: byID[id], NotReady: notReady, Withheld: f.withholds(byID[id]), Now: time.Now()}
		if of := status.Of(f.status.Families, object); of != nil && of.Rights {
			if state.Missing, err = f.rights.missing(ctx, state.Program, of.Listable); err != nil {
				failed = err
				continue
			}
			lacking = lacking || len(state.Missing) > 0
		}
		if f.work != "" && policyreview.HasWork(state.Program) {
			working = true
			if state.Lacking, err = policyreview.Lacking(ctx, f.discovery, f.asked, f.work, state.Program); err != nil {
				failed = err
				continue
			}
			lacking = lacking || len(state.Lacking) > 0
		}
		f.report(id, state)
		s, err := status.Desired(f.status.Families, object, state)
		if err != nil {
			f.log.Error("no status can be written", "policy", key, "error", err)
			continue
		}
		if s == nil {
			continue
		}
		written, err := f.status.Write(ctx, object, s)
		if err != nil {
			failed = err // continue, since the other policies need their status, too
		} else if written {
			f.reportServer(object, state.Program)
		}
	}
	again = f.asked.again(lacking, working)
	if wait := f.offenders.Waiting(left); wait > 0 {
		again = min(wait, cmp.Or(again, wait))
	}
	switch {
	case unknown > 0 && settling:
		again = retrySettling
	case unknown > 0:
		again = min(retryUnknown, cmp.Or(again, retryUnknown))
	}
	return all, again, failed
}

// leftOut is the number of policies whose webhooks are left out.
type leftOut struct {
	clusterWide, namespaced int
	done                    <-chan struct{} // closed when this replica no longer leads
}

// countLeftOut counts the policies whose webhooks are left out. ctx ends when this replica no longer leads.
func (f *webhookReconciler) countLeftOut(ctx context.Context, programs []*policy.Program, ready webhookconf.Readiness) {
	count := &leftOut{done: ctx.Done()}
	for _, p := range programs {
		if left := (webhookconf.LeftOut{}); !errors.As(ready[webhookconf.ProgramKey(p)], &left) {
			continue
		}
		if p.Namespace == "" {
			count.clusterWide++
		} else {
			count.namespaced++
		}
	}
	f.leftOut.Store(count)
}

// leftOutNow returns the last count; known is false while this replica does not lead.
func (f *webhookReconciler) leftOutNow() (clusterWide, namespaced int, known bool) {
	count := f.leftOut.Load()
	if count == nil {
		return 0, 0, false
	}
	select {
	case <-count.done:
		return 0, 0, false
	default:
		return count.clusterWide, count.namespaced, true
	}
}

// report writes an event and logs a line when the missing rights for a policy's work have changed.
func (f *webhookReconciler) report(id policy.ID, state family.State) {
	text := family.Texts(state.Lacking)
	if text == f.lacked[id] {
		return
	}
	if text == "" {
		delete(f.lacked, id)
		f.log.Info("the background controller has all rights for the policy's work again", "policy", id.String())
		return
	}
	f.lacked[id] = text
	f.log.Warn("the background controller cannot carry out the policy", "policy", id.String(), "missing", text)
	f.events.Record(event.Event{
		Regarding: event.PolicyReference(state.Program), Reason: event.PolicyError, Action: event.None, Controller: event.AdmissionController,
		Note: "the background controller cannot carry out the policy: " + text + "; grant the rights by a ClusterRole with the label " + aggregateToBackground,
	})
}

// reportServer writes an event for a policy whose meaning another version of Kubernetes changed, unless the status of the object already says
// so.
func (f *webhookReconciler) reportServer(object *unstructured.Unstructured, p *policy.Program) {
	if p == nil || p.Changed == nil {
		return
	}
	text := value.Message(p.Changed.String())
	if said := status.Condition(f.status.Families, object, family.ConditionKubernetes); said != nil && said["message"] == text {
		return
	}
	f.events.Record(event.Event{
		Regarding: event.PolicyReference(p), Type: event.Warning, Reason: event.MeaningChanged, Action: event.None, Controller: event.AdmissionController, Note: text,
	})
}

// aggregateToBackground is the label of ClusterRoles that extend the rights of the background controller.
const aggregateToBackground = "rbac.kyverno.io/aggregate-to-background-controller=true"
