package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// creators is the number of clients that create, or delete, Namespaces at the same time.
const creators = 16

// backgroundRole grants the background controller the rights for the policies' objects.
const backgroundRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: bench-background, labels: {rbac.kyverno.io/aggregate-to-background-controller: "true"}}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create, update, patch, delete]}
- {apiGroups: [networking.k8s.io], resources: [networkpolicies], verbs: [get, list, watch, create, update, patch, delete]}
`

const generatePolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: bench-generate}
spec:
  rules:
  - name: settings
    match: {any: [{resources: {kinds: [Namespace], selector: {matchLabels: {bench: "yes"}}}}]}
    generate:
      synchronize: true
      apiVersion: v1
      kind: ConfigMap
      name: settings
      namespace: "{{ request.object.metadata.name }}"
      clone: {namespace: default, name: bench-source}
  - name: default-deny
    match: {any: [{resources: {kinds: [Namespace], selector: {matchLabels: {bench: "yes"}}}}]}
    generate:
      synchronize: true
      apiVersion: networking.k8s.io/v1
      kind: NetworkPolicy
      name: default-deny
      namespace: "{{ request.object.metadata.name }}"
      data: {spec: {podSelector: {}, policyTypes: [Ingress, Egress]}}
`

var (
	namespaces      = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps      = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	serviceAccounts = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	networkPolicies = schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}
	updateRequests  = schema.GroupVersionResource{Group: "kyverno.io", Version: "v2", Resource: "updaterequests"}
)

// namespaceName returns the name of the i-th Namespace.
func namespaceName(prefix string, i int) string { return fmt.Sprintf("%s-%04d", prefix, i) }

// rightSettings accepts copies of the source with the content.
func rightSettings(content string) func(*unstructured.Unstructured) bool {
	return func(o *unstructured.Unstructured) bool {
		data, _, _ := unstructured.NestedStringMap(o.Object, "data")
		return o.GetName() == "settings" && len(data) == 1 && data["content"] == content && o.GetLabels()["generate.kyverno.io/trigger-uid"] != ""
	}
}

func rightNetworkPolicy(o *unstructured.Unstructured) bool {
	types, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "policyTypes")
	return o.GetName() == "default-deny" && len(types) == 2 && types[0] == "Ingress" && types[1] == "Egress" && o.GetLabels()["generate.kyverno.io/trigger-uid"] != ""
}

// policy applies a policy and waits until it is in force, since new roles take effect with a delay.
func (g *backgroundBench) policy(ctx context.Context, manifest string) error {
	err := g.cluster.Wait(ctx, "the policy to be accepted", func() error {
		_, err := g.cluster.Kubectl(ctx, []byte(manifest), "apply", "-f", "-")
		return err
	})
	if err != nil {
		return err
	}
	_, err = g.cluster.Kubectl(ctx, nil, "wait", "--for=condition=Ready", "--timeout=120s", "clusterpolicies", "--all")
	return err
}

// source writes the object to copy.
func (g *backgroundBench) source(ctx context.Context, content string) error {
	manifest := fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: bench-source, namespace: default}, data: {content: %s}}", content)
	_, err := g.cluster.Kubectl(ctx, []byte(manifest), "apply", "-f", "-")
	return err
}

// makeNamespaces creates Namespaces as fast as the API server does.
func (g *backgroundBench) makeNamespaces(ctx context.Context, prefix string, n int) error {
	return atOnce(n, func(i int) error { return g.makeNamespace(ctx, namespaceName(prefix, i)) })
}

func (g *backgroundBench) makeNamespace(ctx context.Context, name string) error {
	ns := &unstructured.Unstructured{Object: object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{
		"name": name, "labels": object{"bench": "yes"},
	}}}
	_, err := g.client.Resource(namespaces).Create(ctx, ns, metav1.CreateOptions{})
	return err
}

// atOnce calls f for 0 to n-1, several at the same time, and returns the errors joined.
func atOnce(n int, f func(i int) error) error {
	errs := make([]error, creators)
	var running sync.WaitGroup
	for k := range errs {
		running.Go(func() {
			for i := k; i < n && errs[k] == nil; i += creators {
				errs[k] = f(i)
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// drained waits until no UpdateRequest is left.
func (g *backgroundBench) drained(ctx context.Context) error {
	for {
		list, err := g.client.Resource(updateRequests).Namespace("kyverno").List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case err != nil:
			return err
		case len(list.Items) == 0:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("UpdateRequests are left, such as %s: %w", list.Items[0].GetName(), ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// expected are objects that will be generated and that have the right labels.
type expected struct {
	resource schema.GroupVersionResource
	selector string
	right    func(*unstructured.Unstructured) bool

	all chan arrival
}

// arrival is the time at which the last object was right, or the error.
type arrival struct {
	at  time.Time
	err error
}

// generated returns the objects of a policy.
func generated(resource schema.GroupVersionResource, right func(*unstructured.Unstructured) bool) *expected {
	return &expected{resource: resource, selector: "generate.kyverno.io/policy-name=bench-generate", right: right}
}

// watch counts existing and new objects until n are right, each in a separate Namespace; await returns the time.
func (e *expected) watch(ctx context.Context, client dynamic.Interface, n int) error {
	list, err := client.Resource(e.resource).List(ctx, metav1.ListOptions{LabelSelector: e.selector})
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for i := range list.Items {
		if o := &list.Items[i]; e.right(o) {
			there[o.GetNamespace()] = true
		}
	}
	events, err := client.Resource(e.resource).Watch(ctx, metav1.ListOptions{LabelSelector: e.selector, ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return err
	}
	e.all = make(chan arrival, 1)
	go func() {
		defer events.Stop()
		err := e.follow(ctx, events, there, n)
		e.all <- arrival{time.Now(), err}
	}()
	return nil
}

// follow records the right objects until there are n.
func (e *expected) follow(ctx context.Context, events watch.Interface, there map[string]bool, n int) error {
	for len(there) < n {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d %s are right: %w", len(there), n, e.resource.Resource, ctx.Err())
		case event, ok := <-events.ResultChan():
			if !ok {
				return fmt.Errorf("the watch of %s ended, %d of %d are right", e.resource.Resource, len(there), n)
			}
			if event.Type == watch.Error {
				return apierrors.FromObject(event.Object)
			}
			if o, ok := event.Object.(*unstructured.Unstructured); ok && event.Type != watch.Deleted && e.right(o) {
				there[o.GetNamespace()] = true
			}
		}
	}
	return nil
}

// await returns the time at which the last of the watched objects was right.
func (e *expected) await() (time.Time, error) {
	last := <-e.all
	return last.at, last.err
}

// check counts the right and wrong objects at the end.
func (e *expected) check(ctx context.Context, client dynamic.Interface) (right, wrong int, err error) {
	list, err := client.Resource(e.resource).List(ctx, metav1.ListOptions{LabelSelector: e.selector})
	if err != nil {
		return 0, 0, err
	}
	for i := range list.Items {
		if e.right(&list.Items[i]) {
			right++
		} else {
			wrong++
		}
	}
	return right, wrong, nil
}
