package webhookconf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reconciler writes the configurations that differ from the stored ones. Only the leader runs it.
type Reconciler struct {
	Client client.Writer
	// Reader reads the stored configurations. It may be a cache, since the API server rejects a write that is based on an old copy.
	Reader client.Reader
	// Live reads from the API server. It is used if a configuration exists that the cache does not contain.
	Live client.Reader
	// Static: the resource configurations are created once, and users may change them afterwards, except for their address, path and CA
	// bundle (--autoUpdateWebhooks=false).
	Static bool
	// Own: unwanted configurations belong to another process and are not deleted.
	Own bool
	// Restored is called for each configuration that another client changed or deleted; nil for none.
	Restored func(name, what string)
	// Hold is called before a configuration is created; its error prevents the creation. It may be nil.
	Hold func(ctx context.Context) error
	Log  *slog.Logger

	// rejected holds the configurations that the API server rejected as invalid in the last Apply.
	rejected []rejection
	// unwritten holds the names of the configurations that the last Apply could not write.
	unwritten map[string]bool
	// settled holds the last correct state of each configuration, to distinguish our own changes from those of other clients.
	settled map[string]client.Object
}

// Apply stores the configurations and returns how many it wrote. It reverts and reports changes by other clients to labels, annotations,
// owners and webhooks. It deletes resource configurations that are no longer wanted. If the API server rejects one change, it still makes
// the others.
func (r *Reconciler) Apply(ctx context.Context, want Configurations) (written int, err error) {
	wanted := map[string]bool{}
	var failed []error
	r.rejected, r.unwritten = nil, map[string]bool{}
	list := all(want)
	slices.SortStableFunc(list, func(a, b client.Object) int { return strings.Compare(order(a), order(b)) })
	slices.Reverse(list)
	for _, c := range list {
		wanted[c.GetName()] = true
		changed, err := r.one(ctx, c, want.path)
		if answer, invalid := rejected(err); invalid {
			r.rejected = append(r.rejected, rejection{c, answer})
		}
		if err != nil {
			r.unwritten[c.GetName()] = true
		}
		failed = append(failed, err)
		written += changed
	}
	if err := errors.Join(failed...); err != nil || r.Own {
		return written, err
	}
	stored, err := List(ctx, r.Reader)
	if err != nil {
		return written, err
	}
	for _, c := range stored {
		name := c.GetName()
		if wanted[name] || !IsResource(name) || c.GetDeletionTimestamp() != nil {
			continue
		}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, c)); err != nil {
			failed = append(failed, fmt.Errorf("delete webhook configuration %s: %w", name, err))
			continue
		}
		delete(r.settled, name)
		written++
		r.Log.Info("deleted webhook configuration", "name", name)
	}
	return written, errors.Join(failed...)
}

// LeaveUndecided removes from ready the policies with webhooks in configurations that the last Apply could not write: whether these policies are
// in force is not known.
func (r *Reconciler) LeaveUndecided(want Configurations, ready Readiness) {
	for key, programs := range want.serves {
		if r.unwritten[key.configuration] {
			for _, p := range programs {
				delete(ready, ProgramKey(p))
			}
		}
	}
}

// order returns a text by which configurations are sorted before they are written, the last one first: further parts and configurations of
// namespaced policies, to which webhooks move, come before those from which the webhooks are removed.
func order(c client.Object) string {
	if !IsResource(c.GetName()) {
		return "z"
	}
	return c.GetName()
}

// all returns the configurations of both kinds.
func all(c Configurations) []client.Object {
	out := make([]client.Object, 0, len(c.Validating)+len(c.Mutating))
	for _, v := range c.Validating {
		out = append(out, v)
	}
	for _, m := range c.Mutating {
		out = append(out, m)
	}
	return out
}

// Stored returns the current rules of resource webhooks (Input.Stored).
func (r *Reconciler) Stored(ctx context.Context) (func(configuration, webhook string) []admissionv1.RuleWithOperations, error) {
	stored, err := List(ctx, r.Reader)
	if err != nil {
		return nil, err
	}
	return func(configuration, webhook string) []admissionv1.RuleWithOperations {
		for _, c := range stored {
			if !strings.HasPrefix(c.GetName(), configuration) {
				continue
			}
			for _, w := range webhooksOf(c) {
				if w.name() == webhook {
					return w.rules()
				}
			}
		}
		return nil
	}, nil
}

// try asks the API server whether it accepts a configuration. It stores nothing.
func (r *Reconciler) try(ctx context.Context, want client.Object) error {
	stored := empty(want)
	err := r.Reader.Get(ctx, client.ObjectKeyFromObject(want), stored)
	switch {
	case apierrors.IsNotFound(err):
		return r.Client.Create(ctx, want.DeepCopyObject().(client.Object), client.DryRunAll)
	case err != nil:
		return err
	}
	return r.Client.Update(ctx, replaced(stored, want), client.DryRunAll)
}

// replaced returns the stored configuration with the desired content.
func replaced(stored, want client.Object) client.Object {
	next := stored.DeepCopyObject().(client.Object)
	next.SetLabels(want.GetLabels())
	next.SetAnnotations(want.GetAnnotations())
	next.SetOwnerReferences(want.GetOwnerReferences())
	setWebhooks(next, want.DeepCopyObject().(client.Object)) // Update decodes the response into next
	return next
}

// one stores a single configuration.
func (r *Reconciler) one(ctx context.Context, want client.Object, path func(string) string) (int, error) {
	name := want.GetName()
	stored := empty(want)
	before := r.settled[name]
	err := r.Reader.Get(ctx, client.ObjectKeyFromObject(want), stored)
	if apierrors.IsNotFound(err) {
		if r.Hold != nil {
			if err := r.Hold(ctx); err != nil {
				return 0, fmt.Errorf("create webhook configuration %s: %w", name, err)
			}
		}
		created := want.DeepCopyObject().(client.Object)
		err = r.Client.Create(ctx, created)
		if err == nil {
			if before != nil {
				r.restored(name, "it was deleted")
			} else {
				r.Log.Info("created webhook configuration", "name", name)
			}
			r.settle(want)
			return 1, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return 0, fmt.Errorf("create webhook configuration %s: %w", name, err)
		}
		// The configuration exists but is not in our cache, which contains only objects with our label.
		err = r.Live.Get(ctx, client.ObjectKeyFromObject(want), stored)
	}
	if err != nil {
		return 0, fmt.Errorf("read webhook configuration %s: %w", name, err)
	}
	if r.Static && stored.GetAnnotations()[staticAnnotation] != "" {
		want = handedOver(want, stored, path)
	}
	difference := differences(stored, want)
	if len(difference) == 0 {
		r.settle(want)
		return 0, nil
	}
	foreign := before != nil && len(differences(before, want)) == 0
	if err := r.Client.Update(ctx, replaced(stored, want)); err != nil {
		return 0, fmt.Errorf("update webhook configuration %s: %w", name, err)
	}
	if what := strings.Join(difference, ", "); foreign {
		r.restored(name, "another client changed "+what)
	} else {
		r.Log.Info("updated webhook configuration", "name", name, "changed", what)
	}
	r.settle(want)
	return 1, nil
}

func (r *Reconciler) restored(name, what string) {
	r.Log.Warn("restored webhook configuration", "name", name, "found", what)
	if r.Restored != nil {
		r.Restored(name, what)
	}
}

func (r *Reconciler) settle(want client.Object) {
	if r.settled == nil {
		r.settled = map[string]client.Object{}
	}
	r.settled[want.GetName()] = want
}

// Remove deletes every webhook configuration that we manage, including those of the cleanup controller. It continues after an error,
// since each remaining configuration may block requests.
func Remove(ctx context.Context, c client.Writer) error {
	ours := client.MatchingLabels{ManagedLabel: ManagedValue}
	var failed error
	for _, kind := range []client.Object{&admissionv1.ValidatingWebhookConfiguration{}, &admissionv1.MutatingWebhookConfiguration{}} {
		if err := c.DeleteAllOf(ctx, kind, ours); err != nil && failed == nil {
			failed = fmt.Errorf("delete webhook configurations: %w", err)
		}
	}
	return failed
}

// differences returns the names of the parts in which a stored configuration differs from the desired one.
func differences(stored, want client.Object) (out []string) {
	if !equality.Semantic.DeepEqual(stored.GetLabels(), want.GetLabels()) {
		out = append(out, "labels")
	}
	if !equality.Semantic.DeepEqual(stored.GetAnnotations(), want.GetAnnotations()) {
		out = append(out, "annotations")
	}
	if !equality.Semantic.DeepEqual(stored.GetOwnerReferences(), want.GetOwnerReferences()) {
		out = append(out, "owners")
	}
	have := map[string]anyWebhook{}
	for _, w := range webhooksOf(stored) {
		have[w.name()] = w
	}
	wanted := webhooksOf(want)
	for _, w := range wanted {
		old, found := have[w.name()]
		switch {
		case !found:
			out = append(out, "webhook "+w.name()+" (missing)")
		case !equality.Semantic.DeepEqual(old.content(), w.content()):
			out = append(out, "webhook "+w.name())
		}
		delete(have, w.name())
	}
	for _, w := range webhooksOf(stored) {
		if _, extra := have[w.name()]; extra {
			out = append(out, "webhook "+w.name()+" (not ours)")
		}
	}
	if len(out) == 0 && !equality.Semantic.DeepEqual(contents(stored), contents(want)) {
		out = append(out, "the order of webhooks") // the API server calls mutating webhooks in this order
	}
	return out
}
