package devcluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
)

// Object names an object of the API server.
type Object struct {
	schema.GroupVersionResource
	Namespace, Name string
}

func (o Object) String() string {
	return strings.TrimPrefix(o.Namespace+"/", "/") + o.GroupResource().String() + "/" + o.Name
}

// Inventory has all objects of the API server, but those that come and go without any action of a user. The value of a definition is its
// state, that of any other object is "there".
type Inventory map[Object]string

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// stateOf returns what differs after a change of a definition by a user.
func stateOf(resource schema.GroupVersionResource, o *metav1.PartialObjectMetadata) string {
	if resource != definitions {
		return "there"
	}
	return fmt.Sprintf("%s, generation %d, labels %v, annotations %v", o.UID, o.Generation, o.Labels, o.Annotations)
}

// passing are the resources whose objects come and go by themselves.
var passing = map[string]bool{"events": true, "leases": true, "endpoints": true, "endpointslices": true, "componentstatuses": true, "ipaddresses": true}

// Inventory lists the objects of the API server.
func (c *Cluster) Inventory(ctx context.Context) (Inventory, error) {
	lists, err := discovery.NewDiscoveryClientForConfigOrDie(c.Config).ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	all := Inventory{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if passing[r.Name] || !slices.Contains(r.Verbs, "list") {
				continue
			}
			resource := version.WithResource(r.Name)
			objects, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue // the kind was removed meanwhile
			}
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", resource, err)
			}
			for i := range objects.Items {
				o := &objects.Items[i]
				all[Object{resource, o.Namespace, o.Name}] = stateOf(resource, o)
			}
		}
	}
	return all, nil
}

// without returns the objects that another inventory lacks, sorted, as an error that names them; nil if there are none.
func (i Inventory) without(other Inventory, ignore func(Object) bool) error {
	var names []string
	for o := range i {
		if other[o] == "" && !ignore(o) {
			names = append(names, o.String())
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return errors.New(strings.Join(names, ", "))
}

// NothingNew waits until there is no object that was not there before, apart from those to be ignored. The error names the others.
func (c *Cluster) NothingNew(ctx context.Context, before Inventory, ignore func(Object) bool) error {
	return c.Wait(ctx, "the removal of new objects", func() error {
		now, err := c.Inventory(ctx)
		if err != nil {
			return err
		}
		return now.without(before, ignore)
	})
}

// RemoveWebhooks removes the webhook configurations that were not there before. A controller that ended before it could take a removed policy
// out of its configuration leaves webhooks behind which answer no more: with failurePolicy Fail they refuse the deletion of what tests created.
func (c *Cluster) RemoveWebhooks(ctx context.Context, before Inventory) error {
	client, err := metadata.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	for _, resource := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		of := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}
		configurations, err := client.Resource(of).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range configurations.Items {
			name := configurations.Items[i].Name
			if before[Object{of, "", name}] != "" {
				continue
			}
			if err := client.Resource(of).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}

// Reset removes all objects that were not there before, and waits until there are the same objects again.
func (c *Cluster) Reset(ctx context.Context, before Inventory) error {
	now, err := c.Inventory(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(now, func(o Object, _ string) bool { return before[o] != "" })
	client, err := metadata.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	remove := func(which func(Object) bool) (err error) {
		for o := range now {
			if !which(o) {
				continue
			}
			if e := client.Resource(o.GroupVersionResource).Namespace(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{}); !apierrors.IsNotFound(e) {
				err = errors.Join(err, e)
			}
		}
		return err
	}
	// What has a say in deletions goes first; objects go with their namespace or definition.
	asked := func(o Object) bool { return o.Group == "admissionregistration.k8s.io" }
	goes := func(o Object) bool {
		return o.Namespace != "" && now[Object{schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", o.Namespace}] != "" ||
			now[Object{definitions, "", o.Resource + "." + o.Group}] != ""
	}
	if err := remove(asked); err != nil {
		return err
	}
	if err := remove(func(o Object) bool { return !asked(o) && !goes(o) }); err != nil {
		return err
	}
	all := func(Object) bool { return false }
	if err := c.NothingNew(ctx, before, all); err != nil {
		return err
	}
	if now, err = c.Inventory(ctx); err != nil {
		return err
	}
	if err := before.without(now, all); err != nil {
		return fmt.Errorf("these objects were removed: %w", err)
	}
	for o, state := range before {
		if now[o] != state {
			return fmt.Errorf("%s was changed: it was %s, and is %s", o, state, now[o])
		}
	}
	return nil
}
