package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ephor-dev/ephor/internal/event"
	"github.com/ephor-dev/ephor/internal/lifecycle"
	"github.com/ephor-dev/ephor/internal/webhookconf"
)

// installation is what webhook configurations live and die with: the chart's ClusterRole that owns them, and our own
// namespace.
type installation struct {
	namespace string
	reader    client.Reader // cached
	client    client.Client
	events    event.Recorder
	// controller reports the events.
	controller string
	log        *slog.Logger
	// leaving is fired when our namespace may be terminating.
	leaving lifecycle.Trigger

	ownerless bool // it was said already; used by one goroutine
}

var errNoOwner = errors.New("webhook configurations are not written: there is no ClusterRole that would take them along when it is deleted")

// owner returns the reference that configurations carry; nil, after saying so, when there is no owner.
func (i *installation) owner(ctx context.Context) (*metav1.OwnerReference, error) {
	owner, err := webhookconf.FindOwner(ctx, i.reader)
	if err != nil {
		return nil, err
	}
	switch {
	case owner == nil && !i.ownerless:
		i.log.Error("no webhook configurations are written: they would outlive this installation and lock the cluster",
			"missing", "a ClusterRole named *:webhook with the label "+webhookconf.OwnerLabel+"="+webhookconf.OwnerValue)
		i.events.Record(event.Event{
			Regarding: event.Reference{APIVersion: "v1", Kind: "Namespace", Name: i.namespace}, Reason: event.PolicyError, Action: event.None,
			Note:       errNoOwner.Error() + "; install the chart's ClusterRole " + i.namespace + ":webhook",
			Controller: i.controller,
		})
	case owner != nil && i.ownerless:
		i.log.Info("webhook configurations have an owner again", "clusterRole", owner.Name)
	}
	i.ownerless = owner == nil
	return owner, nil
}

// terminating reports whether our namespace is being deleted, or gone.
func (i *installation) terminating(ctx context.Context) (bool, error) {
	ns := namespaceObject()
	err := i.reader.Get(ctx, client.ObjectKey{Name: i.namespace}, ns)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && ns.DeletionTimestamp != nil, err
}

// remove deletes all webhook configurations when our namespace is being deleted: in a moment no replica could answer any
// more, and soon afterwards we may not delete them. Every replica does it, without waiting for a lease.
func (i *installation) remove(ctx context.Context) (time.Duration, error) {
	leaving, err := i.terminating(ctx)
	if err != nil || !leaving {
		return 0, err
	}
	i.log.Warn("our namespace is being deleted: webhook configurations are removed", "namespace", i.namespace)
	return 0, webhookconf.Remove(ctx, i.client)
}

// handler is for the informer of namespaces.
func (i *installation) handler() toolscache.ResourceEventHandler {
	look := func(obj any) {
		if o, ok := obj.(metav1.Object); ok && o.GetName() == i.namespace && o.GetDeletionTimestamp() != nil {
			i.leaving.Fire()
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, obj any) { look(obj) }, DeleteFunc: look}
}

// ownerObject is the kind among whose objects the owner is found.
func ownerObject() client.Object { return &rbacv1.ClusterRole{} }

// onlyIdentity reduces an object to its name and what reports whether it is going away.
func onlyIdentity(obj any) (any, error) {
	switch o := obj.(type) {
	case *rbacv1.ClusterRole:
		o.ObjectMeta = identity(&o.ObjectMeta)
		o.Rules, o.AggregationRule = nil, nil
	case *metav1.PartialObjectMetadata:
		o.ObjectMeta = identity(&o.ObjectMeta)
	}
	return obj, nil
}

func identity(m *metav1.ObjectMeta) metav1.ObjectMeta {
	kept := metav1.ObjectMeta{Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, DeletionTimestamp: m.DeletionTimestamp}
	if v, ok := m.Labels[webhookconf.OwnerLabel]; ok {
		kept.Labels = map[string]string{webhookconf.OwnerLabel: v}
	}
	return kept
}
