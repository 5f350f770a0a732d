package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// cleaner restores the state of a cluster before the tests: objects that a test left behind would change the next one.
type cleaner struct {
	discovery discovery.DiscoveryInterface
	client    dynamic.Interface
	before    map[object]*unstructured.Unstructured
}

// object identifies an object; the UID does not count, since controllers replace some of their own objects.
type object struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

func (o object) String() string {
	return strings.Trim(o.resource.Resource+" "+o.namespace+"/"+o.name, "/")
}

// unwatched are resources that the cluster writes by itself and on which no test depends.
var unwatched = map[string]bool{
	"events": true, "leases": true, "endpoints": true, "endpointslices": true, "componentstatuses": true,
	"apiservices": true, "controllerrevisions": true, "flowschemas": true, "prioritylevelconfigurations": true,
	"validatingwebhookconfigurations": true, "mutatingwebhookconfigurations": true, // written by the controllers; see settled
}

// cleanTime bounds the removal of leftovers.
const cleanTime = 60 * time.Second

func newCleaner(ctx context.Context, config *rest.Config) (*cleaner, error) {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	c := &cleaner{discovery: d}
	if c.client, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	c.before, err = c.list(ctx)
	return c, err
}

// list reads all objects of the cluster.
func (c *cleaner) list(ctx context.Context) (map[object]*unstructured.Unstructured, error) {
	groups, err := c.discovery.ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, err
	}
	out := map[object]*unstructured.Unstructured{}
	for _, group := range groups {
		gv, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range group.APIResources {
			if strings.Contains(r.Name, "/") || unwatched[r.Name] || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "delete") {
				continue
			}
			gvr := gv.WithResource(r.Name)
			l, err := c.client.Resource(gvr).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue // the definition was deleted meanwhile
			}
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", gvr.GroupResource(), err)
			}
			for i := range l.Items {
				item := &l.Items[i]
				out[object{gvr, item.GetNamespace(), item.GetName()}] = item
			}
		}
	}
	return out, nil
}

// clean removes new objects and restores what tests change: settings and the labels of namespaces. It returns the objects
// that were left behind, for the log.
func (c *cleaner) clean(ctx context.Context) (left []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, cleanTime)
	defer cancel()
	if err := c.clearEvents(ctx); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for round := 0; ; round++ {
		now, err := c.list(ctx)
		if err != nil {
			return left, err
		}
		if err := c.restore(ctx, now); err != nil {
			return left, err
		}
		leftovers := c.leftovers(now)
		if len(leftovers) == 0 {
			return left, nil
		}
		for _, o := range leftovers {
			if !seen[o.String()] {
				seen[o.String()] = true
				left = append(left, o.String())
			}
			if err := c.remove(ctx, o, now[o], round > 20); err != nil && round > 10 {
				left = append(left, fmt.Sprintf("%s: %v", o, err))
			}
		}
		select {
		case <-ctx.Done():
			return left, fmt.Errorf("the cluster could not be cleaned: %s", strings.Join(left, ", "))
		case <-time.After(min(200*time.Millisecond<<min(round, 3), time.Second)):
		}
	}
}

// clearEvents deletes the events in namespaces that stay: tests check whether an event exists, without saying for which
// object.
func (c *cleaner) clearEvents(ctx context.Context) error {
	for o := range c.before {
		if o.resource != (schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}) {
			continue
		}
		events := c.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).Namespace(o.name)
		if err := events.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("delete the events of %s: %w", o.name, err)
		}
	}
	return nil
}

// leftovers returns the new objects that no other component removes. While policies are left it returns only those: they
// could deny or react to the removal of the others.
func (c *cleaner) leftovers(now map[object]*unstructured.Unstructured) []object {
	ending := map[string]bool{}
	for o, item := range now {
		// Names that chainsaw generated never recur, so the run need not wait until such a namespace is gone.
		if o.resource.Resource == "namespaces" && item.GetDeletionTimestamp() != nil && strings.HasPrefix(o.name, "chainsaw-") {
			ending[o.name] = true
		}
	}
	var policies, rest []object
	for o, item := range now {
		if c.before[o] != nil || ending[o.namespace] && !isPolicy(o) || ending[o.name] && o.namespace == "" {
			continue
		}
		if o.namespace != "" && item.GetDeletionTimestamp() == nil {
			// Namespaces create these by themselves and delete everything in them.
			if o.resource.Resource == "serviceaccounts" && o.name == "default" || o.resource.Resource == "configmaps" && o.name == "kube-root-ca.crt" {
				continue
			}
		}
		if len(item.GetOwnerReferences()) > 0 && item.GetDeletionTimestamp() == nil {
			continue // deleted by the garbage collector
		}
		if o.resource.Resource == "secrets" && item.GetLabels()["app.kubernetes.io/managed-by"] == "ephor" {
			continue // keys that the controllers create when they first need them, and keep in memory
		}
		if isPolicy(o) {
			policies = append(policies, o)
			continue
		}
		rest = append(rest, o)
	}
	if len(policies) > 0 {
		return policies
	}
	return rest
}

func isPolicy(o object) bool {
	return o.resource.Group == "kyverno.io" || o.resource.Group == "policies.kyverno.io"
}

// remove deletes the object at once; with force, it also removes its finalizers.
func (c *cleaner) remove(ctx context.Context, o object, item *unstructured.Unstructured, force bool) error {
	r := dynamic.ResourceInterface(c.client.Resource(o.resource))
	if o.namespace != "" {
		r = c.client.Resource(o.resource).Namespace(o.namespace)
	}
	if force && len(item.GetFinalizers()) > 0 {
		_, err := r.Patch(ctx, o.name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return ignoreNotFound(err)
	}
	if item.GetDeletionTimestamp() != nil {
		return nil
	}
	now, background := int64(0), metav1.DeletePropagationBackground
	return ignoreNotFound(r.Delete(ctx, o.name, metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &background}))
}

// restore restores settings and labels, and objects that were deleted.
func (c *cleaner) restore(ctx context.Context, now map[object]*unstructured.Unstructured) error {
	for o, old := range c.before {
		r := dynamic.ResourceInterface(c.client.Resource(o.resource))
		if o.namespace != "" {
			r = c.client.Resource(o.resource).Namespace(o.namespace)
		}
		item := now[o]
		switch {
		case item == nil && o.namespace == "kyverno" && o.resource.Resource == "configmaps", item == nil && strings.HasSuffix(o.resource.Group, "rbac.authorization.k8s.io"):
			again := old.DeepCopy()
			again.SetResourceVersion("")
			again.SetUID("")
			if _, err := r.Create(ctx, again, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		case item == nil:
		case o.resource.Resource == "namespaces" && o.resource.Group == "":
			if maps.Equal(item.GetLabels(), old.GetLabels()) && maps.Equal(item.GetAnnotations(), old.GetAnnotations()) {
				continue
			}
			item.SetLabels(old.GetLabels())
			item.SetAnnotations(old.GetAnnotations())
			if _, err := r.Update(ctx, item, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
				return err
			}
		case o.namespace == "kyverno" && o.resource.Resource == "configmaps" && o.resource.Group == "":
			if reflect.DeepEqual(item.Object["data"], old.Object["data"]) {
				continue
			}
			item.Object["data"] = old.Object["data"]
			if _, err := r.Update(ctx, item, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
				return err
			}
		}
	}
	return nil
}

// webhooks returns the content of the cluster's webhook configurations.
func (c *cleaner) webhooks(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	for _, resource := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		gvr := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}
		l, err := c.client.Resource(gvr).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, item := range l.Items {
			var rules []any
			hooks, _, _ := unstructured.NestedSlice(item.Object, "webhooks")
			for _, hook := range hooks {
				if m, ok := hook.(map[string]any); ok {
					rules = append(rules, m["name"], m["rules"])
				}
			}
			b, err := json.Marshal(rules)
			if err != nil {
				return nil, err
			}
			out[resource+"/"+item.GetName()] = string(b)
		}
	}
	return out, nil
}

// settled waits until the webhook configurations have the content from before the tests.
func (c *cleaner) settled(ctx context.Context, want map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		got, err := c.webhooks(ctx)
		if err == nil && maps.Equal(got, want) {
			return nil
		}
		select {
		case <-ctx.Done():
			for name, hooks := range got {
				if want[name] != hooks {
					err = errors.Join(err, fmt.Errorf("%s: %s instead of %s", name, hooks, want[name]))
				}
			}
			return fmt.Errorf("the webhook configurations stayed behind: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
