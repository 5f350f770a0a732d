package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/keystore"
	marks "ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/seal"
)

// generateLabel is the prefix of the labels on generated objects.
const generateLabel = "generate.kyverno.io/"

// adoption reads and writes the marks of generated objects with the rights of an administrator.
type adoption struct {
	discovery clientdiscovery.DiscoveryInterface
	metadata  metadata.Interface
	objects   dynamic.Interface
	store     *keystore.Store
	warnings  io.Writer

	ring  *seal.Keyring // nil until there is a key
	kinds map[schema.GroupKind]metav1.APIResource
}

func newAdoption(config *rest.Config, namespace string, warnings io.Writer) (*adoption, error) {
	a := &adoption{warnings: warnings, kinds: map[schema.GroupKind]metav1.APIResource{}}
	var errs [4]error
	a.discovery, errs[0] = clientdiscovery.NewDiscoveryClientForConfig(config)
	a.metadata, errs[1] = metadata.NewForConfig(config)
	a.objects, errs[2] = dynamic.NewForConfig(config)
	c, err := discovery.NewClient(config, client.Options{})
	errs[3] = err
	a.store = &keystore.Store{Client: c, Reader: c, Namespace: namespace, Name: keystore.Marks}
	return a, errors.Join(errs[:]...)
}

func (a *adoption) rotate(ctx context.Context) (id string, err error) {
	ring, err := a.store.Rotate(ctx)
	if err != nil {
		return "", err
	}
	return ring.Current().ID(), nil
}

// load reads the keys. Without a key, no mark can be verified. Keys are created only if make is set, to write marks.
func (a *adoption) load(ctx context.Context, make bool) (err error) {
	secret := &corev1.Secret{}
	err = a.store.Reader.Get(ctx, client.ObjectKey{Namespace: a.store.Namespace, Name: a.store.Name}, secret)
	switch {
	case apierrors.IsNotFound(err) && !make:
		fmt.Fprintf(a.warnings, "Warning: there is no Secret %s/%s, so that no mark can be checked; is this the namespace of the installation?\n", a.store.Namespace, a.store.Name)
		return nil
	case err == nil || apierrors.IsNotFound(err):
		a.ring, err = a.store.Load(ctx)
	}
	return err
}

// The states of objects with the labels of a rule.
const (
	stateMarked   = "marked"
	stateOlder    = "older key"
	stateUnproved = "unproved"
)

// labelled is an object with the labels that a generate rule sets.
type labelled struct {
	metav1.PartialObjectMetadata
	resource schema.GroupVersionResource
	state    string
}

func (o *labelled) label(name string) string { return o.Labels[generateLabel+name] }

// policy returns the key of the policy.
func (o *labelled) policy() string {
	if ns := o.label("policy-namespace"); ns != "" {
		return ns + "/" + o.label("policy-name")
	}
	return o.label("policy-name")
}

func (o *labelled) triggerText() string {
	return strings.Join(slices.DeleteFunc([]string{o.label("trigger-kind"), o.label("trigger-namespace"), o.label("trigger-name"), o.label("trigger-uid")},
		func(s string) bool { return s == "" }), "/")
}

func (o *labelled) identity() marks.Object {
	return marks.Object{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

// list finds all objects with the labels of rules, in all kinds that the administrator may list.
func (a *adoption) list(ctx context.Context) ([]labelled, error) {
	lists, err := a.discovery.ServerPreferredResources()
	if err != nil {
		if !clientdiscovery.IsGroupDiscoveryFailedError(err) {
			return nil, fmt.Errorf("find the kinds of the cluster: %w", err)
		}
		fmt.Fprintf(a.warnings, "Warning: %v\n", err)
	}
	var out []labelled
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range l.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "update") {
				continue
			}
			r.Group, r.Version = gv.Group, gv.Version
			a.kinds[schema.GroupKind{Group: gv.Group, Kind: r.Kind}] = r
			found, err := a.listKind(ctx, r)
			if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				fmt.Fprintf(a.warnings, "Warning: list %s: %v\n", r.Name, err)
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", r.Name, err)
			}
			out = append(out, found...)
		}
	}
	return out, nil
}

func resourceOf(r metav1.APIResource) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Name}
}

func (a *adoption) listKind(ctx context.Context, r metav1.APIResource) ([]labelled, error) {
	var out []labelled
	options := metav1.ListOptions{Limit: remote.PageSize, LabelSelector: "app.kubernetes.io/managed-by=kyverno," + generateLabel + "rule-name"}
	_, err := controller.Pages(ctx, options, a.metadata.Resource(resourceOf(r)).List, func(page *metav1.PartialObjectMetadataList) error {
		for _, item := range page.Items {
			o := labelled{PartialObjectMetadata: item, resource: resourceOf(r)}
			o.APIVersion, o.Kind = schema.GroupVersion{Group: r.Group, Version: r.Version}.String(), r.Kind
			o.state = a.state(&o)
			out = append(out, o)
		}
		return nil
	})
	return out, err
}

// state returns what the mark of an object proves about its labels.
func (a *adoption) state(o *labelled) string {
	if a.ring == nil {
		return stateUnproved
	}
	text := o.Annotations[marks.Annotation]
	c, err := marks.Read(a.ring, text, o.identity())
	switch {
	case err != nil, c.Policy != o.policy(), c.Rule != o.label("rule-name"), c.Trigger.UID != o.label("trigger-uid"):
		return stateUnproved
	case !marks.IsCurrent(a.ring, text):
		return stateOlder
	}
	return stateMarked
}

// markAll marks the named objects, or all objects without a valid mark, and reports what it did. An error for one object does
// not stop it from marking the others.
func (a *adoption) markAll(ctx context.Context, out io.Writer, objects []labelled, named []objectName) error {
	var errs []error
	seen := make([]bool, len(named))
	for i := range objects {
		o := &objects[i]
		text := strings.Join(slices.DeleteFunc([]string{o.Kind, o.Namespace, o.Name}, func(s string) bool { return s == "" }), "/")
		at := slices.Index(named, objectName{o.Kind, o.Namespace, o.Name})
		if at >= 0 {
			seen[at] = true
		}
		if len(named) > 0 && at < 0 || o.state == stateMarked {
			continue
		}
		if err := a.mark(ctx, o); err != nil {
			errs = append(errs, fmt.Errorf("%s is not marked: %w", text, err))
			continue
		}
		fmt.Fprintf(out, "marked %s\n", text)
	}
	for i, n := range named {
		if !seen[i] {
			errs = append(errs, fmt.Errorf("there is no %s with the labels of a generate rule; `ephor adopt --all` lists them", strings.Trim(n.kind+"/"+n.namespace+"/"+n.name, "/")))
		}
	}
	return errors.Join(errs...)
}

// mark marks an object according to its labels, after it found the policy, the rule and the trigger.
func (a *adoption) mark(ctx context.Context, o *labelled) error {
	if err := a.hasRule(ctx, o); err != nil {
		return err
	}
	trigger, err := a.trigger(ctx, o)
	if err != nil {
		return err
	}
	c := marks.Claim{Policy: o.policy(), Rule: o.label("rule-name"), Trigger: trigger, Source: o.label("source-uid"), Asked: true}
	objects := a.objects.Resource(o.resource).Namespace(o.Namespace)
	u, err := objects.Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if u.GetUID() != o.UID {
		return errors.New("it was replaced by another object in the meantime")
	}
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[marks.Annotation] = marks.Make(a.ring, c, o.identity())
	u.SetAnnotations(annotations)
	_, err = objects.Update(ctx, u, metav1.UpdateOptions{})
	return err
}

// hasRule returns an error if the policy has no generate rule of that name.
func (a *adoption) hasRule(ctx context.Context, o *labelled) error {
	ns := o.label("policy-namespace")
	kind := compile.Kinds.ForWork(string(kyvernov2.Generate), ns != "")
	p, err := a.objects.Resource(kind.GVR()).Namespace(ns).Get(ctx, o.label("policy-name"), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("its policy cannot be read: %w", err)
	}
	rules, _, err := unstructured.NestedSlice(p.Object, "spec", "rules")
	if err != nil {
		return err
	}
	for _, r := range rules {
		if rule, _ := r.(map[string]any); rule["name"] == o.label("rule-name") && rule["generate"] != nil {
			return nil
		}
	}
	return fmt.Errorf("the policy %s has no generate rule %q", o.policy(), o.label("rule-name"))
}

// trigger finds the trigger by its UID, or by its name for labels of older releases, which hold only the name.
func (a *adoption) trigger(ctx context.Context, o *labelled) (marks.Object, error) {
	uid, name := o.label("trigger-uid"), o.label("trigger-name")
	if uid == "" && name == "" {
		return marks.Object{}, errors.New("its labels name no trigger")
	}
	r, ok := a.kinds[schema.GroupKind{Group: o.label("trigger-group"), Kind: o.label("trigger-kind")}]
	if !ok {
		return marks.Object{}, fmt.Errorf("the kind %q of its trigger is not served", o.label("trigger-kind"))
	}
	out := marks.Object{APIVersion: schema.GroupVersion{Group: o.label("trigger-group"), Version: o.label("trigger-version")}.String(), Kind: r.Kind}
	options := metav1.ListOptions{Limit: remote.PageSize}
	in := a.metadata.Resource(resourceOf(r)).Namespace(o.label("trigger-namespace"))
	_, err := controller.Pages(ctx, options, in.List, func(page *metav1.PartialObjectMetadataList) error {
		for i := range page.Items {
			if t := &page.Items[i]; uid != "" && string(t.UID) == uid || uid == "" && t.Name == name {
				out.Namespace, out.Name, out.UID = t.Namespace, t.Name, string(t.UID)
				return controller.ErrEnough
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return out, fmt.Errorf("look for its trigger: %w", err)
	case out.UID == "":
		return out, fmt.Errorf("its trigger %s does not exist; remove the labels, or delete the object", o.triggerText())
	}
	return out, nil
}
