package webhooks

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientdiscovery "k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/control/serving"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/observe"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/policyreview"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/status"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/webhookconf"
)

// Reconciler reconciles the webhook configurations, and then the policies' status, with the catalog.
type Reconciler struct {
	Catalog   *catalog.Catalog
	Policies  *intake.Policies
	Settings  *settings.Store
	Discovery *discovery.Discovery
	// Conditions checks match conditions.
	Conditions *webhookconf.Conditions
	Options    webhookconf.Options
	Reader     client.Reader // reads from the cache
	Certs      *serving.Certificates
	Paths      *serving.Paths
	Unlocked   *serving.Unlocked
	Heartbeat  *serving.Heartbeat
	// Installation owns the configurations.
	Installation *serving.Installation
	Apply        *webhookconf.Reconciler
	Offenders    *webhookconf.Offenders
	Status       *status.Writer
	// Withholds reports whether a policy may not use the login of the installation for registries.
	Withholds func(*policy.Program) bool
	Rights    *ScanRights
	// Asked caches answers about rights. work is the account that executes the work of policies; empty if unknown.
	Asked   *Answers
	Work    string
	lacked  map[policy.ID]string // the missing rights of the account, as last reported
	Events  event.Recorder
	Metrics *observe.Metrics
	Log     *slog.Logger

	// inForce holds the Programs whose webhooks are written.
	inForce atomic.Pointer[map[*policy.Program]bool]

	unconfined []string // the last logged value of webhookconf.Configurations.Unconfined
}

// NewConditions returns the check of match conditions for the API server of the client.
func NewConditions(client clientdiscovery.ServerVersionInterface) *webhookconf.Conditions {
	compatible := &discovery.Compatible{Client: client, Now: time.Now}
	return &webhookconf.Conditions{Version: compatible.Version}
}

// Configured reports whether the webhook configurations hold the webhooks of the Program.
func (f *Reconciler) Configured(p *policy.Program) bool {
	now := f.inForce.Load()
	return now != nil && (*now)[p]
}

// confirm sets the Programs for which Configured is true.
func (f *Reconciler) confirm(programs []*policy.Program, written func(*policy.Program) bool) {
	now := make(map[*policy.Program]bool, len(programs))
	for _, p := range programs {
		now[p] = written(p)
	}
	f.inForce.Store(&now)
}

// retryUnknown is the pause before a kind that the API server did not serve is looked up again. retrySettling is the pause while the kind
// may be served soon.
const (
	retryUnknown  = 30 * time.Second
	retrySettling = 300 * time.Millisecond
)

// warnUnconfined logs the webhooks that are called for all namespaces because of namespaced policies, whenever the list changes.
func (f *Reconciler) warnUnconfined(webhooks []string) {
	if slices.Equal(webhooks, f.unconfined) {
		return
	}
	if f.unconfined = webhooks; len(webhooks) > 0 {
		f.Log.Warn("the webhooks of namespaced policies are called for all namespaces: the names of the namespaces with policies exceed 64 KiB, the limit of a match condition; "+
			"use cluster-wide policies with a namespaceSelector instead of a policy in each namespace", "webhooks", webhooks)
		return
	}
	f.Log.Info("the webhooks of namespaced policies are called only for their namespaces again")
}

// Once writes the webhook configurations with the current paths, and then the status.
func (f *Reconciler) Once(ctx context.Context) (time.Duration, error) {
	return f.Paths.Round(ctx, f.Unlocked, f.write)
}

// write writes the configurations with these paths, and then the status of each policy whose configurations were written. It returns whether
// all configurations were written. It reads the objects before the snapshot, so that it never writes a status for a policy whose Program is
// older than the object.
func (f *Reconciler) write(ctx context.Context, path func(string) string) (all bool, again time.Duration, err error) {
	objects, broken := f.Policies.All()
	programs := f.Catalog.Snapshot().Programs()
	bundle, err := f.Certs.Bundle(ctx)
	if err != nil {
		return false, 0, err
	}
	if bundle == nil {
		f.Log.Info("waiting for the certificate authority", "secret", f.Certs.Flags.CASecret)
		return false, 0, nil // the creation of the missing object starts another round
	}
	if leaving, err := f.Installation.Terminating(ctx); err != nil || leaving {
		return false, 0, err // the configurations are deleted and must not be created again
	}
	owner, err := f.Installation.Owner(ctx)
	if err != nil {
		return false, 0, err
	}
	stored, err := f.Apply.Stored(ctx)
	if err != nil {
		return false, 0, err
	}
	settling := f.Discovery.Settling()
	options := f.Options
	options.Path = path
	written, left := f.Offenders.Split(programs)
	input := webhookconf.Input{
		Programs: written, Settings: f.Settings.Load(), CABundle: bundle, Resources: f.Discovery, Options: options,
		Conditions: f.Conditions, Owner: owner, Stored: stored, Settling: settling,
	}
	want, ready, unknown, err := webhookconf.Desired(input)
	if err != nil {
		return false, 0, err
	}
	maps.Copy(ready, left)
	clusterWide, namespaced := countLeftOut(programs, ready)
	f.Metrics.LeftOut(ctx, clusterWide, namespaced)
	f.warnUnconfined(want.Unconfined)
	if owner == nil {
		for key := range ready {
			ready[key] = serving.ErrNoOwner
		}
	} else {
		if err := f.keepFailOpen(ctx, want); err != nil {
			return false, 0, err
		}
		switch _, err := f.Apply.Apply(ctx, want); {
		case apierrors.IsConflict(err), errors.Is(err, serving.ErrUnlocked):
			return false, 0, err // the cache is older than a write, usually our own
		case err != nil:
			found, wait, failed := f.Offenders.Find(ctx, input, want)
			if found {
				f.Log.Warn("the API server rejects webhook configurations because of policies, which are left out", "error", err)
				return false, serving.RetryConflict, nil
			}
			f.Apply.LeaveUndecided(want, ready)
			f.confirm(programs, func(p *policy.Program) bool {
				reason, decided := ready[webhookconf.ProgramKey(p)]
				return decided && reason == nil || f.Configured(p)
			})
			_, unsaid := f.writeStatuses(ctx, objects, broken, programs, ready)
			return false, wait, errors.Join(err, failed, unsaid)
		}
		all = true
		f.Offenders.Accept(written)
		f.confirm(programs, func(*policy.Program) bool { return true })
	}
	again, err = f.writeStatuses(ctx, objects, broken, programs, ready)
	if wait := f.Offenders.Waiting(left); wait > 0 {
		again = min(wait, cmp.Or(again, wait))
	}
	switch {
	case unknown > 0 && settling:
		again = retrySettling
	case unknown > 0:
		again = min(retryUnknown, cmp.Or(again, retryUnknown))
	}
	return all, again, err
}

// writeStatuses writes the status of each policy, and returns when rights that are in one are looked up again; 0 for never. A failure for one
// policy keeps none of the others from its status.
func (f *Reconciler) writeStatuses(
	ctx context.Context, objects map[policy.ID]*unstructured.Unstructured, broken map[policy.ID]error, programs []*policy.Program, ready webhookconf.Readiness,
) (time.Duration, error) {
	byID := make(map[policy.ID]*policy.Program, len(programs))
	for _, p := range programs {
		byID[p.Identity()] = p
	}
	f.Asked.round()
	lacking, working := false, false
	var errs []error
	maps.DeleteFunc(f.lacked, func(id policy.ID, _ string) bool { return objects[id] == nil })
	for id, object := range objects {
		notReady, known := f.notReady(object, byID[id], broken[id], ready)
		if !known {
			continue
		}
		if notReady != nil {
			f.Log.Warn("policy is not ready", "policy", id.String(), "error", notReady)
		}
		state := family.State{Program: byID[id], NotReady: notReady, Withheld: f.Withholds(byID[id]), Now: time.Now()}
		var err error
		if of := status.Of(f.Status.Families, object); of != nil && of.Rights {
			if state.Missing, err = f.Rights.Missing(ctx, state.Program, of.Listable); err != nil {
				errs = append(errs, err)
				continue
			}
			lacking = lacking || len(state.Missing) > 0
		}
		if f.Work != "" && policyreview.HasWork(state.Program) {
			working = true
			if state.Lacking, err = policyreview.Lacking(ctx, f.Discovery, f.Asked, f.Work, state.Program); err != nil {
				errs = append(errs, err)
				continue
			}
			lacking = lacking || len(state.Lacking) > 0
		}
		f.report(id, state)
		s, err := status.Desired(f.Status.Families, object, state)
		if err != nil {
			f.Log.Error("no status can be written", "policy", id.String(), "error", err)
			continue
		}
		if s == nil {
			continue
		}
		written, err := f.Status.Write(ctx, object, s)
		if err != nil {
			errs = append(errs, err)
		} else if written {
			f.reportServer(object, state.Program)
		}
	}
	return f.Asked.again(lacking, working), errors.Join(errs...)
}

// notReady returns the reason why a policy is not ready; nil if it is. known is false if this is not decided yet: another round follows soon.
func (f *Reconciler) notReady(object *unstructured.Unstructured, p *policy.Program, broken error, ready webhookconf.Readiness) (reason error, known bool) {
	if broken != nil {
		return broken, true
	}
	if p == nil {
		return nil, false // its compilation ends soon
	}
	switch reason, known = ready[webhookconf.ProgramKey(p)]; {
	case known && reason == nil: // a policy that was stored without our review may have mistakes
		return p.Diags.Errors().Err(), true
	case !errors.Is(reason, webhookconf.ErrSettling):
		return reason, known
	case status.IsNew(f.Status.Families, object):
		return nil, false // a policy must not be reported as ready before it is enforced
	}
	return nil, true
}

// countLeftOut counts the policies whose webhooks are left out.
func countLeftOut(programs []*policy.Program, ready webhookconf.Readiness) (clusterWide, namespaced int) {
	for _, p := range programs {
		switch left := (webhookconf.LeftOut{}); {
		case !errors.As(ready[webhookconf.ProgramKey(p)], &left):
		case p.Namespace == "":
			clusterWide++
		default:
			namespaced++
		}
	}
	return clusterWide, namespaced
}

// report writes an event and logs a line when the missing rights for a policy's work have changed.
func (f *Reconciler) report(id policy.ID, state family.State) {
	text := family.Texts(state.Lacking)
	if text == f.lacked[id] {
		return
	}
	if text == "" {
		delete(f.lacked, id)
		f.Log.Info("the background controller has all rights for the policy's work again", "policy", id.String())
		return
	}
	if f.lacked == nil {
		f.lacked = map[policy.ID]string{}
	}
	f.lacked[id] = text
	f.Log.Warn("the background controller cannot carry out the policy", "policy", id.String(), "missing", text)
	f.Events.Record(event.Event{
		Regarding: event.PolicyReference(state.Program), Reason: event.PolicyError, Action: event.None, Controller: event.AdmissionController,
		Note: "the background controller cannot carry out the policy: " + text + "; grant the rights by a ClusterRole with the label " + aggregateToBackground,
	})
}

// reportServer writes an event for a policy whose meaning another version of Kubernetes changed, unless the status of the object already says
// so.
func (f *Reconciler) reportServer(object *unstructured.Unstructured, p *policy.Program) {
	if p == nil || p.Changed == nil {
		return
	}
	text := value.Message(p.Changed.String())
	if said := status.Condition(f.Status.Families, object, family.ConditionKubernetes); said != nil && said["message"] == text {
		return
	}
	f.Events.Record(event.Event{
		Regarding: event.PolicyReference(p), Type: event.Warning, Reason: event.MeaningChanged, Action: event.None, Controller: event.AdmissionController, Note: text,
	})
}

// aggregateToBackground is the label of ClusterRoles that extend the rights of the background controller.
const aggregateToBackground = "rbac.kyverno.io/aggregate-to-background-controller=true"
