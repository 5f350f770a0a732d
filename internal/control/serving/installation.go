package serving

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/webhookconf"
)

// Installation holds the objects whose deletion removes the webhook configurations: the chart's ClusterRole that owns them, and our own
// namespace.
type Installation struct {
	Namespace string
	// Role is the name of the controller's ClusterRole, which owns the configurations; empty if there is none.
	Role   string
	Reader client.Reader // reads from the cache
	Client client.Client
	Events event.Recorder
	// Controller is the name of the controller that reports the events.
	Controller string
	Log        *slog.Logger
	// Leaving is fired when our namespace may be terminating.
	Leaving *controller.Signal

	ownerless bool // the missing owner is already reported; used by one goroutine
}

// ErrNoOwner is the error when configurations are not written because there is no owner.
var ErrNoOwner = errors.New("webhook configurations are not written: there is no ClusterRole to own them, so nothing would delete them")

// Owner returns the owner reference for the configurations. If there is no owner, it returns nil, logs a line and writes an event.
func (i *Installation) Owner(ctx context.Context) (*metav1.OwnerReference, error) {
	owner, err := webhookconf.FindOwner(ctx, i.Reader, i.Role)
	if err != nil {
		return nil, err
	}
	switch {
	case owner == nil && !i.ownerless:
		i.Log.Error("no webhook configurations are written: they would outlive this installation and lock the cluster",
			"missing", i.Role+", or a ClusterRole named *:webhook with the label "+webhookconf.OwnerLabel+"="+webhookconf.OwnerValue)
		i.Events.Record(event.Event{
			Regarding: event.Reference{APIVersion: "v1", Kind: "Namespace", Name: i.Namespace}, Reason: event.PolicyError, Action: event.None,
			Note:       ErrNoOwner.Error() + "; install the chart's ClusterRole " + cmp.Or(i.Role, "kyverno:webhook"),
			Controller: i.Controller,
		})
	case owner != nil && i.ownerless:
		i.Log.Info("webhook configurations have an owner again", "clusterRole", owner.Name)
	}
	i.ownerless = owner == nil
	return owner, nil
}

// Terminating reports whether our namespace is terminating or deleted.
func (i *Installation) Terminating(ctx context.Context) (bool, error) {
	ns := intake.NamespaceObject()
	err := i.Reader.Get(ctx, client.ObjectKey{Name: i.Namespace}, ns)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && ns.DeletionTimestamp != nil, err
}

// Remove deletes all webhook configurations when our namespace terminates: soon no replica will be able to answer, and the controller will
// lose the right to delete them. Every replica does this without waiting for a lease.
func (i *Installation) Remove(ctx context.Context) (time.Duration, error) {
	leaving, err := i.Terminating(ctx)
	if err != nil || !leaving {
		return 0, err
	}
	i.Log.Warn("our namespace is being deleted: removing webhook configurations", "namespace", i.Namespace)
	return 0, webhookconf.Remove(ctx, i.Client)
}

// Handler returns the handler for the informer of namespaces.
func (i *Installation) Handler() toolscache.ResourceEventHandler {
	look := func(obj any, deleted bool) {
		if o, ok := obj.(metav1.Object); ok && o.GetName() == i.Namespace && (deleted || o.GetDeletionTimestamp() != nil) {
			i.Leaving.Fire()
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { look(obj, false) }, UpdateFunc: func(_, obj any) { look(obj, false) },
		DeleteFunc: func(obj any) { look(intake.Deleted(obj), true) },
	}
}

// OwnerObject returns an empty object of the owner's kind, ClusterRole.
func OwnerObject() client.Object { return &rbacv1.ClusterRole{} }

// OnlyIdentity reduces an object to its name and its deletion timestamp.
func OnlyIdentity(obj any) (any, error) {
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
