package remote

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/source"
)

// Query selects the objects of a cluster that are evaluated.
type Query struct {
	Kinds     []discovery.Resource
	Unlisted  error    // why the kinds may not be all; nil if they are
	Namespace string   // empty for all
	Names     []string // empty for all
	Page      int64    // the number of objects in a page
	Parallel  int      // the number of kinds that are listed at once
	// Strict: an error in a list ends the run.
	Strict bool
}

// Add adds kinds to the query. unlisted is the reason why others may be missing; nil for none.
func (q *Query) Add(kinds []discovery.Resource, unlisted error) {
	for _, k := range kinds {
		if !slices.Contains(q.Kinds, k) {
			q.Kinds = append(q.Kinds, k)
		}
	}
	q.Unlisted = cmp.Or(q.Unlisted, unlisted)
}

// InScope selects the kinds to list. With a namespace it returns the namespaced kinds. With wide it puts the
// cluster-wide kinds first, and without a namespace it then returns only those.
func InScope(kinds []discovery.Resource, namespace string, wide bool) []discovery.Resource {
	var out []discovery.Resource
	if wide {
		out = slices.DeleteFunc(slices.Clone(kinds), func(k discovery.Resource) bool { return k.Namespaced })
		if namespace == "" {
			return out
		}
	}
	for _, k := range kinds {
		if k.Namespaced || namespace == "" {
			out = append(out, k)
		}
	}
	return out
}

// Page is a part of the list of one kind.
type Page struct {
	Kind    discovery.Resource
	Objects []source.Object
	Err     error // the error because of which the rest of the kind, or of a group without Kind, is missing
	Took    time.Duration
}

// List calls give with all objects, kind by kind in the order of the query and page by page. Meanwhile it lists the next kinds in parallel.
func (c *Cluster) List(ctx context.Context, q Query, give func(Page)) {
	if q.Unlisted != nil {
		give(Page{Err: q.Unlisted})
	}
	pages := make([]chan Page, len(q.Kinds))
	next := make(chan int)
	var wg sync.WaitGroup
	for i := range pages {
		pages[i] = make(chan Page)
	}
	for range max(q.Parallel, 1) {
		wg.Go(func() {
			for i := range next {
				c.listKind(ctx, q, q.Kinds[i], func(p Page) { pages[i] <- p })
				close(pages[i])
			}
		})
	}
	go func() {
		for i := range pages {
			next <- i
		}
		close(next)
	}()
	for _, kind := range pages {
		for p := range kind {
			give(p)
		}
	}
	wg.Wait()
}

// Exceptions passes the exceptions of all kinds to give: those in the namespace, or all if it is empty. The diagnostics name what could not be listed.
func (c *Cluster) Exceptions(ctx context.Context, namespace string, give func(source.Object)) (diags diag.List) {
	q := Query{Namespace: namespace, Page: PageSize}
	for _, x := range compile.Product.Exceptions() {
		q.Add(c.Kinds.Wanted(policy.Target{Group: x.Group, Version: "*", Kind: x.Kind}))
	}
	c.List(ctx, q, func(p Page) {
		for _, o := range p.Objects {
			give(o)
		}
		if p.Err != nil {
			diags.Errorf("", "%s", p.Err)
		}
	})
	return diags
}

// listKind lists one kind. It reads named objects one by one, since a cluster may be large.
func (c *Cluster) listKind(ctx context.Context, q Query, k discovery.Resource, give func(Page)) {
	if len(q.Names) == 0 {
		c.listPages(ctx, q, k, metav1.ListOptions{Limit: q.Page}, give)
	}
	for _, name := range q.Names {
		c.listPages(ctx, q, k, metav1.ListOptions{Limit: q.Page, FieldSelector: "metadata.name=" + path.Base(name)}, give)
	}
}

func (c *Cluster) listPages(ctx context.Context, q Query, k discovery.Resource, options metav1.ListOptions, give func(Page)) {
	var resource dynamic.ResourceInterface = c.Dynamic.Resource(k.GVR())
	if k.Namespaced && q.Namespace != "" {
		resource = c.Dynamic.Resource(k.GVR()).Namespace(q.Namespace)
	}
	var start time.Time
	list := func(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
		start = time.Now()
		return resource.List(ctx, o)
	}
	_, err := controller.Pages(ctx, options, list, func(list *unstructured.UnstructuredList) (err error) {
		p := Page{Kind: k, Objects: make([]source.Object, 0, len(list.Items))}
		for i := range list.Items {
			o := &list.Items[i]
			if k.Subresource != "" {
				if o, err = c.subresource(ctx, k, o); err != nil {
					if !apierrors.IsNotFound(err) {
						p.Err = err
					}
					continue
				}
			}
			p.Objects = append(p.Objects, listed(o))
		}
		p.Took = time.Since(start)
		give(p)
		return nil
	})
	if err != nil {
		give(Page{Kind: k, Err: fmt.Errorf("list %s: %w", k.GVR().GroupResource(), err), Took: time.Since(start)})
	}
}

// subresource reads the subresource of an object.
func (c *Cluster) subresource(ctx context.Context, k discovery.Resource, of *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	var resource dynamic.ResourceInterface = c.Dynamic.Resource(k.GVR())
	if k.Namespaced {
		resource = c.Dynamic.Resource(k.GVR()).Namespace(of.GetNamespace())
	}
	o, err := resource.Get(ctx, of.GetName(), metav1.GetOptions{}, k.Subresource)
	if err != nil {
		return nil, fmt.Errorf("get %s/%s of %s: %w", k.Resource, k.Subresource, of.GetName(), err)
	}
	return o, nil
}

// listed returns an object as if it were read from a file: without the managedFields.
func listed(o *unstructured.Unstructured) source.Object {
	o.SetManagedFields(nil)
	return source.Object{Value: o.Object, Pos: func(path string) diag.Position {
		at := o.GetName()
		if ns := o.GetNamespace(); ns != "" {
			at = ns + "/" + at
		}
		return diag.Position{File: o.GetKind() + " " + at}
	}}
}
