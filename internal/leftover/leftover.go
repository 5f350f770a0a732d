package leftover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/ring"
	"ephor.invalid/ephor/internal/unlock"
	"ephor.invalid/ephor/internal/updaterequest/origin"
	"ephor.invalid/ephor/internal/webhookconf"
)

// Installation is the installation whose objects are listed and removed.
type Installation struct {
	Client client.Client
	// Namespace and ConfigMap are the names of the installation's namespace and main ConfigMap.
	Namespace, ConfigMap string
	Now                  func() time.Time
}

// Item is one thing that Ephor created: an object, or an annotation on an object that stays.
type Item struct {
	Kind, Namespace, Name string
	// Annotation: if set, only this annotation is removed.
	Annotation string
	// Why says what the item was for.
	Why string

	object client.Object
}

func (i Item) String() string {
	out := strings.Join(slices.DeleteFunc([]string{i.Kind, i.Namespace, i.Name}, func(s string) bool { return s == "" }), "/")
	if i.Annotation != "" {
		return "annotation " + i.Annotation + " of " + out
	}
	return out
}

// secrets are the Secrets that Ephor creates, with the purpose of each.
var secrets = []struct{ name, why string }{
	{keystore.Routes, "keys of the secret segments in webhook paths"},
	{keystore.CleanupRoutes, "keys of the secret segments in the cleanup controller's webhook paths"},
	{keystore.Marks, "keys of the marks on generated objects; without them Ephor does not recognise its older objects"},
	{keystore.Reports, "key of the seals of intermediate reports"},
	{keystore.Exceptions, "key of the approvals of exceptions; exceptions are pending without it"},
	{keystore.Images, "key of the seals of image verifications; images are verified again without it"},
	{keystore.Decisions, "key of the digests in records of decisions"},
	{unlock.SecretName, "webhook configurations that were kept when the cluster was unlocked"},
}

// Running is the error for an installation whose controllers still run: they would create everything again.
type Running struct{ Pods []string }

func (r *Running) Error() string {
	return "Ephor still runs, and would make everything again: " + strings.Join(r.Pods, ", ")
}

// List finds all items. It returns a *Running error while replicas of Ephor share the work.
func (in *Installation) List(ctx context.Context) ([]Item, error) {
	var items []Item
	err := errors.Join(in.leases(ctx, &items), in.configurations(ctx, &items), in.secrets(ctx, &items), in.configMaps(ctx, &items), in.annotations(ctx, &items))
	slices.SortFunc(items, func(a, b Item) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.String(), b.String())) })
	return items, err
}

func add(items *[]Item, kind string, o client.Object, why string) {
	*items = append(*items, Item{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), Why: why, object: o})
}

// leases adds the Leases by which replicas share the work, and the one with the versions of the API servers.
func (in *Installation) leases(ctx context.Context, items *[]Item) error {
	var list coordinationv1.LeaseList
	if err := in.Client.List(ctx, &list, client.InNamespace(in.Namespace), client.HasLabels{ring.Label}); err != nil {
		return fmt.Errorf("list Leases: %w", err)
	}
	versions := &coordinationv1.Lease{}
	switch err := in.Client.Get(ctx, types.NamespacedName{Namespace: in.Namespace, Name: discovery.ServersLease}, versions); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("read the Lease %s/%s: %w", in.Namespace, discovery.ServersLease, err)
	default:
		add(items, "Lease", versions, "the versions of the API servers")
	}
	running := &Running{}
	for i := range list.Items {
		l := &list.Items[i]
		add(items, "Lease", l, "a replica's share of the work")
		if s := l.Spec; s.RenewTime != nil && s.LeaseDurationSeconds != nil && in.Now().Before(s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds)*time.Second)) {
			running.Pods = append(running.Pods, l.Name)
		}
	}
	if len(running.Pods) > 0 {
		return running
	}
	return nil
}

// ownConfigurations are the names of the webhook configurations that Kyverno does not have; further parts have a suffix.
var ownConfigurations = []string{webhookconf.ExtraValidating, webhookconf.ExtraMutating, webhookconf.NamespacedValidating, webhookconf.NamespacedMutating}

// configurations adds the webhook configurations that Kyverno does not have, and all others that no server answers. It leaves those that
// Kyverno also has and answers, which now belong to Kyverno, and those without webhooks, which Kyverno keeps while no policy needs them.
func (in *Installation) configurations(ctx context.Context, items *[]Item) error {
	all, err := webhookconf.List(ctx, in.Client)
	if err != nil {
		return err
	}
	runs, empty := false, []client.Object(nil)
	for _, o := range all {
		switch servers := webhookconf.ServersOf(o); {
		case slices.ContainsFunc(ownConfigurations, func(own string) bool { return strings.HasPrefix(o.GetName(), own) }):
			add(items, webhookconf.KindOf(o), o, "webhooks that only Ephor has")
		case len(servers) == 0:
			empty = append(empty, o)
		default:
			answered, err := in.answersAny(ctx, servers)
			if err != nil {
				return err
			}
			if !answered {
				add(items, webhookconf.KindOf(o), o, "no Pod answers its webhooks")
			}
			runs = runs || answered
		}
	}
	for _, o := range empty {
		if !runs {
			add(items, webhookconf.KindOf(o), o, "it has no webhooks, and no Pod answers those of other configurations")
		}
	}
	return nil
}

// answersAny reports whether a server answers one of the webhooks. A server outside the cluster cannot be checked, and counts as
// answering.
func (in *Installation) answersAny(ctx context.Context, to []admissionv1.WebhookClientConfig) (bool, error) {
	for _, c := range to {
		if c.Service == nil {
			return true, nil
		}
		answered, err := in.answered(ctx, c.Service.Namespace, c.Service.Name)
		if err != nil || answered {
			return answered, err
		}
	}
	return false, nil
}

// answered reports whether a Service has a ready endpoint.
func (in *Installation) answered(ctx context.Context, namespace, service string) (bool, error) {
	var list discoveryv1.EndpointSliceList
	if err := in.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
		return false, fmt.Errorf("list the endpoints of the Service %s/%s: %w", namespace, service, err)
	}
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				return true, nil
			}
		}
	}
	return false, nil
}

func (in *Installation) secrets(ctx context.Context, items *[]Item) error {
	for _, s := range secrets {
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		switch err := in.Client.Get(ctx, types.NamespacedName{Namespace: in.Namespace, Name: s.name}, o); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("read the Secret %s/%s: %w", in.Namespace, s.name, err)
		default:
			add(items, "Secret", o, s.why)
		}
	}
	return nil
}

func (in *Installation) configMaps(ctx context.Context, items *[]Item) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := in.Client.List(ctx, list, client.InNamespace(in.Namespace)); err != nil {
		return fmt.Errorf("list ConfigMaps: %w", err)
	}
	for i := range list.Items {
		o := &list.Items[i]
		o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		switch {
		case o.Labels[origin.RecordLabel] == origin.RecordValue:
			add(items, "ConfigMap", o, "record of generated objects")
		case o.Name == origin.RulesName:
			add(items, "ConfigMap", o, "the generate rules that were last seen")
		}
	}
	return nil
}

// annotations adds our annotations on objects that Kyverno also has.
func (in *Installation) annotations(ctx context.Context, items *[]Item) error {
	for _, n := range []struct {
		o               client.Object
		kind, name, key string
	}{
		{&corev1.ConfigMap{}, "ConfigMap", in.ConfigMap, unlock.Annotation},
		{&coordinationv1.Lease{}, "Lease", "kyverno-reports-controller", ephemeral.ScannedAnnotation},
	} {
		switch err := in.Client.Get(ctx, types.NamespacedName{Namespace: in.Namespace, Name: n.name}, n.o); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("read the %s %s/%s: %w", n.kind, in.Namespace, n.name, err)
		case n.o.GetAnnotations()[n.key] != "":
			*items = append(*items, Item{Kind: n.kind, Namespace: in.Namespace, Name: n.name, Annotation: n.key, Why: "a note of Ephor", object: n.o})
		}
	}
	return nil
}

// Remove removes the items and returns those that were removed, even when there is an error.
func (in *Installation) Remove(ctx context.Context, items []Item) ([]Item, error) {
	var done []Item
	for _, i := range items {
		var err error
		if i.Annotation != "" {
			patch := []byte(`{"metadata":{"annotations":{"` + i.Annotation + `":null}}}`)
			err = in.Client.Patch(ctx, i.object, client.RawPatch(types.MergePatchType, patch))
		} else {
			uid := i.object.GetUID()
			err = in.Client.Delete(ctx, i.object, client.Preconditions{UID: &uid})
		}
		if err = client.IgnoreNotFound(err); err != nil {
			return done, fmt.Errorf("remove %s: %w", i, err)
		}
		done = append(done, i)
	}
	return done, nil
}
