package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/rollout"
	"ephor.invalid/ephor/internal/value"
)

// The limits of reading objects and policies.
const (
	pageObjects = 100      // objects in one page of a list
	maxAnswer   = 64 << 20 // bytes of one answer of the API server
	maxPolicies = 1000     // that can be chosen
	// metadataOnly requests lists without the content of objects.
	metadataOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	onlyMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// errAnswer is the error for an answer that is too long.
var errAnswer = fmt.Errorf("an answer of the API server is longer than %d bytes", maxAnswer)

// cluster reads the cluster for one user, with the user's own rights.
type cluster struct {
	client rest.Interface
	o      *Options

	mu     sync.Mutex
	labels map[string]labelled
}

type labelled struct {
	labels map[string]string
	err    error
}

// clusterOf returns the cluster that the owner of a token may read. Without tokens it has the rights of the controller.
func (d *Dashboard) clusterOf(token string) (*cluster, error) {
	c := &cluster{client: d.o.Client, o: &d.o, labels: map[string]labelled{}}
	if d.o.Tokens != nil {
		var err error
		if c.client, err = d.o.As(token); err != nil {
			return nil, fmt.Errorf("connect to the API server for a user: %w", err)
		}
	}
	return c, nil
}

// read reads an object or a list from the API server.
func (c *cluster) read(ctx context.Context, gvr schema.GroupVersionResource, namespace, name, accept string, parameters map[string]string) (map[string]any, error) {
	prefix := []string{"/apis", gvr.Group, gvr.Version}
	if gvr.Group == "" {
		prefix = []string{"/api", gvr.Version}
	}
	r := c.client.Get().AbsPath(prefix...).NamespaceIfScoped(namespace, namespace != "").Resource(gvr.Resource).SetHeader("Accept", accept)
	if name != "" {
		r.Name(name)
	}
	for k, v := range parameters {
		r.Param(k, v)
	}
	stream, err := r.Stream(ctx)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(stream, maxAnswer+1))
	if err := errors.Join(err, stream.Close()); err != nil {
		return nil, err
	}
	if len(body) > maxAnswer {
		return nil, errAnswer
	}
	v, err := value.DecodeJSON(body)
	if err != nil {
		return nil, err
	}
	object, _ := v.(map[string]any)
	return object, nil
}

// list passes the objects of a resource to take, page by page, until take returns false.
func (c *cluster) list(ctx context.Context, gvr schema.GroupVersionResource, namespace, accept string, take func(map[string]any) bool) error {
	parameters := map[string]string{"limit": strconv.Itoa(pageObjects)}
	for {
		page, err := c.read(ctx, gvr, namespace, "", accept, parameters)
		if err != nil {
			return err
		}
		items, _ := page["items"].([]any)
		for _, item := range items {
			if object, ok := item.(map[string]any); ok && !take(object) {
				return nil
			}
		}
		metadata, _ := page["metadata"].(map[string]any)
		next, _ := metadata["continue"].(string)
		if next == "" {
			return nil
		}
		parameters["continue"] = next
	}
}

// listed passes the objects of a resource to take: those in the namespaces or, if none are given, all. If the user may not list all, it
// lists each of the visible namespaces. It returns the number of namespaces that the user may not list.
func (c *cluster) listed(ctx context.Context, k discovery.Resource, namespaces, visible []string, accept string, take func(map[string]any) bool) (denied int, err error) {
	ended := false
	until := func(object map[string]any) bool {
		ended = !take(object)
		return !ended
	}
	if !k.Namespaced || len(namespaces) == 0 {
		err := c.list(ctx, k.GVR(), "", accept, until)
		if !apierrors.IsForbidden(err) {
			return 0, err
		}
		if !k.Namespaced {
			return 1, nil
		}
		namespaces, denied = visible, 1
	}
	for _, ns := range namespaces {
		if ended {
			break
		}
		switch err := c.list(ctx, k.GVR(), ns, accept, until); {
		case apierrors.IsForbidden(err):
			denied++
		case err != nil:
			return denied, err
		}
	}
	return denied, nil
}

// kinds returns the resources that the policies name, each in one version.
func (c *cluster) kinds(programs []*policy.Program) (out []discovery.Resource, err error) {
	for _, p := range programs {
		for _, r := range p.Rules {
			for _, t := range r.Targets {
				found, err := c.o.Discovery.Find(t)
				if err != nil {
					return nil, fmt.Errorf("find the kinds of the policies: %w", err)
				}
				for _, k := range discovery.OneVersion(discovery.Main(found)) {
					if k.Listable && !slices.Contains(out, k) {
						out = append(out, k)
					}
				}
			}
		}
	}
	return out, nil
}

// namespaceLabels returns the labels of a namespace, which it reads once.
func (c *cluster) namespaceLabels(ctx context.Context, name string) (map[string]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, known := c.labels[name]
	if !known {
		object, err := c.read(ctx, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", name, onlyMetadata, nil)
		if err != nil {
			err = fmt.Errorf("the labels of namespace %s: %w", name, err)
		}
		l = labelled{metaOf(object).Labels, err}
		if ctx.Err() == nil {
			c.labels[name] = l
		}
	}
	return l.labels, l.err
}

// meta implements rollout.Owners.Read.
func (c *cluster) meta(ctx context.Context, r compliance.Resource) (rollout.Meta, bool, error) {
	gv, err := schema.ParseGroupVersion(r.APIVersion)
	if err != nil || r.Name == "" {
		return rollout.Meta{}, false, nil
	}
	found, err := c.o.Discovery.Find(policy.Target{Group: gv.Group, Version: "*", Kind: r.Kind})
	if err != nil {
		return rollout.Meta{}, false, fmt.Errorf("find the kind %s: %w", r.Kind, err)
	}
	kinds := discovery.OneVersion(discovery.Main(found))
	if len(kinds) == 0 {
		return rollout.Meta{}, false, nil // an owner of a kind that is no longer served is gone, too
	}
	namespace := r.Namespace
	if !kinds[0].Namespaced {
		namespace = ""
	}
	object, err := c.read(ctx, kinds[0].GVR(), namespace, r.Name, onlyMetadata, nil)
	switch {
	case apierrors.IsNotFound(err):
		return rollout.Meta{}, false, nil
	case err != nil:
		return rollout.Meta{}, false, fmt.Errorf("get %s %s: %w", kinds[0].GVR().GroupResource(), r.Name, err)
	}
	m := metaOf(object)
	return rollout.Meta{Namespace: m.Namespace, UID: string(m.UID), Labels: m.Labels, Annotations: m.Annotations, Owners: m.OwnerReferences}, true, nil
}

// metaOf returns the metadata of an object, as far as they can be decoded.
func metaOf(object map[string]any) (m metav1.ObjectMeta) {
	metadata, err := yaml.Marshal(object["metadata"])
	if err == nil {
		_ = yaml.Unmarshal(metadata, &m)
	}
	return m
}

// choice identifies a policy that can be chosen.
type choice struct {
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// policyKind returns the kind of policies with that name; nil if Ephor does not evaluate such policies in a cluster.
func (c *cluster) policyKind(group, kind string) *family.Kind {
	kinds := c.o.Families.Kinds()
	i := slices.IndexFunc(kinds, func(k *family.Kind) bool { return k.Group == group && k.Kind == kind && !k.Foreign && !k.Offline })
	if i < 0 {
		return nil
	}
	return kinds[i]
}

// choices returns the policies that the user may list.
func (c *cluster) choices(ctx context.Context, visible []string) ([]choice, error) {
	out := []choice{}
	for _, k := range c.o.Families.Kinds() {
		if c.policyKind(k.Group, k.Kind) == nil {
			continue
		}
		found, err := c.o.Discovery.Find(policy.Target{Group: k.Group, Version: k.Versions[0], Kind: k.Kind})
		if err != nil || len(found) == 0 {
			continue // the kind is not served
		}
		if _, err := c.listed(ctx, found[0], nil, visible, metadataOnly, func(object map[string]any) bool {
			m := metaOf(object)
			out = append(out, choice{k.Group, k.Kind, m.Namespace, m.Name})
			return len(out) < maxPolicies
		}); err != nil {
			return nil, fmt.Errorf("list policies: %w", err)
		}
	}
	slices.SortStableFunc(out, func(a, b choice) int {
		return strings.Compare(a.Kind+"/"+a.Namespace+"/"+a.Name, b.Kind+"/"+b.Namespace+"/"+b.Name)
	})
	return out, nil
}

// text returns a policy as its author would write it; empty if there is none or the user may not read it.
func (c *cluster) text(ctx context.Context, of choice) (string, error) {
	k := c.policyKind(of.Group, of.Kind)
	if k == nil || of.Name == "" || k.Namespaced != (of.Namespace != "") || len(content.IsPathSegmentName(of.Name)) > 0 || len(content.IsPathSegmentName(of.Namespace)) > 0 {
		return "", nil
	}
	object, err := c.read(ctx, k.GVR(), of.Namespace, of.Name, "application/json", nil)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read a policy: %w", err)
	}
	written := map[string]any{"apiVersion": object["apiVersion"], "kind": object["kind"], "spec": object["spec"]}
	metadata, kept := map[string]any{}, map[string]any{}
	given, _ := object["metadata"].(map[string]any)
	for _, name := range []string{"name", "namespace", "labels", "annotations"} {
		if v, ok := given[name]; ok {
			metadata[name] = v
		}
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		for name, v := range annotations {
			if name != corev1.LastAppliedConfigAnnotation {
				kept[name] = v
			}
		}
		if metadata["annotations"] = kept; len(kept) == 0 {
			delete(metadata, "annotations")
		}
	}
	written["metadata"] = metadata
	out, err := yaml.Marshal(written)
	return string(out), err
}

// inForce returns the policies of the cluster with the names of the programs, if the user may read them.
func (c *cluster) inForce(ctx context.Context, programs []*policy.Program, options family.Options) (out []*policy.Program, denied int, err error) {
	for _, p := range programs {
		group, _, _ := strings.Cut(p.APIVersion, "/")
		k := c.policyKind(group, p.Kind)
		if k == nil {
			continue
		}
		object, err := c.read(ctx, k.GVR(), p.Namespace, p.Name, "application/json", nil)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case apierrors.IsForbidden(err):
			denied++
			continue
		case err != nil:
			return nil, denied, fmt.Errorf("read a policy in force: %w", err)
		}
		program, _ := c.o.Families.With(compile.Object{Value: object}, nil, options) // a rule with a mistake stays, and fails
		out = append(out, program)
	}
	return out, denied, nil
}

// exceptions returns the exceptions in force in the cluster that the user may list.
func (c *cluster) exceptions(ctx context.Context, visible []string) (out []*policy.Exception, denied int, err error) {
	denied, err = c.storedExceptions(ctx, visible, func(object map[string]any) bool {
		e, diags := c.o.Families.OneException(compile.Object{Value: object})
		if !diags.HasErrors() && !e.Expired(c.o.Now()) { // otherwise it is not in force either
			out = append(out, e)
		}
		return true
	})
	if err != nil {
		return nil, denied, err
	}
	return out, denied, nil
}

// objects returns the existing objects of the kinds, as requests that create them.
func (c *cluster) objects(ctx context.Context, kinds []discovery.Resource, namespaces, visible []string, r *bounds) func(func(impact.Record) bool) {
	return func(yield func(impact.Record) bool) {
		for _, k := range kinds {
			ended := false
			denied, err := c.listed(ctx, k, namespaces, visible, "application/json", func(object map[string]any) bool {
				if !r.next() {
					ended = true
					return false
				}
				object["apiVersion"], object["kind"] = k.APIVersion(), k.Kind // items of a list have no apiVersion and kind
				ended = !yield(impact.Existing(k, object))
				return !ended
			})
			r.denied += denied
			if ended || err != nil && ctx.Err() != nil || err != nil && !yield(impact.Record{At: k.Kind, Err: errors.New("objects of this kind could not be listed")}) {
				return
			}
		}
	}
}
