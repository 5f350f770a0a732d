package live

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/world"
)

// Root creates the Worlds of a cluster.
type Root struct {
	// Reader reads objects as unstructured data.
	Reader client.Reader
	// Labels returns the labels of a namespace; an error if they are unknown.
	Labels func(ctx context.Context, namespace string) (map[string]string, error)
	// API calls the API server by path; nil if that is not allowed.
	API world.API
	// Services calls HTTP services, for cluster-scoped policies only; nil if not allowed.
	Services world.Services
	// HTTP calls services for CEL policies: cluster-wide ones, and also namespaced ones if NamespacedHTTP is set; nil if not allowed.
	HTTP           world.HTTP
	NamespacedHTTP bool
	// Globals holds the data of GlobalContextEntries, for cluster-scoped policies only; nil for none.
	Globals world.Globals
	// Images reads registries, and Signatures verifies signatures in them; nil if not allowed.
	Images     world.Images
	Signatures world.Signatures
	// Seals prove the records of verified images; nil if records need no proof.
	Seals world.Seals
	// Access checks the rights of users, and Kinds returns the scope of kinds; nil if unknown.
	Access world.Access
	Kinds  world.Kinds
}

// For implements world.Root.
func (r *Root) For(reach world.Reach) world.World {
	w := world.World{
		Objects: objects{r.Reader, reach}, Lists: lists{r.Reader, reach, r.Kinds}, Namespaces: namespaces{r.Labels, r.Reader, reach},
		API: world.Confine(reach, r.API), Images: world.ConfineImages(reach, r.Images), Kinds: r.Kinds,
		Signatures: world.ConfineSignatures(reach, r.Signatures), Seals: r.Seals,
		Names: names{}, Clock: clock{}, Rand: random{},
	}
	if r.Access != nil && !reach.IsCluster() {
		w.Access = confined{r.Access, reach}
	}
	w.Resources = w.API
	if reach.IsCluster() || r.NamespacedHTTP {
		w.HTTP = r.HTTP
	}
	if reach.IsCluster() {
		w.Access = r.Access
		w.Services, w.Globals = r.Services, r.Globals
	}
	return w
}

// OutOfReachError is the error for a request for an object outside the policy's namespace.
type OutOfReachError struct{ Kind, Namespace, Name, Reach string }

func (e *OutOfReachError) Error() string {
	return fmt.Sprintf("%s %s/%s is out of reach: the policy sees only the namespace %s", e.Kind, e.Namespace, e.Name, e.Reach)
}

type objects struct {
	reader client.Reader
	reach  world.Reach
}

// Get implements world.Objects.
func (o objects) Get(ctx context.Context, apiVersion, kind, namespace, name string) (map[string]any, error) {
	if !o.reach.Allows(namespace) {
		return nil, &OutOfReachError{kind, namespace, name, o.reach.Namespace()}
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, err
	}
	var u unstructured.Unstructured
	u.SetGroupVersionKind(gv.WithKind(kind))
	if err := o.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &u); err != nil {
		return nil, err
	}
	if err := within(o.reach, kind, &u); err != nil {
		return nil, err
	}
	return u.Object, nil
}

// within returns an error for an object that was read and is out of reach. A reader ignores the namespace of a request for a kind that is
// cluster-scoped, so the namespace that was asked for proves nothing.
func within(reach world.Reach, kind string, o *unstructured.Unstructured) error {
	if !reach.Allows(o.GetNamespace()) {
		return &OutOfReachError{kind, o.GetNamespace(), o.GetName(), reach.Namespace()}
	}
	return nil
}

type lists struct {
	reader client.Reader
	reach  world.Reach
	kinds  world.Kinds
}

// Find implements world.KindFinder.
func (l lists) Find(ctx context.Context, apiVersion, kind string) ([]world.Kind, error) {
	finder, ok := l.kinds.(world.KindFinder)
	if !ok {
		return nil, fmt.Errorf("the kinds that %s %s stands for are %w", apiVersion, kind, world.ErrUnavailable)
	}
	return finder.Find(ctx, apiVersion, kind)
}

// pageSize bounds the number of objects in one page of a list.
const pageSize = 500

// List implements world.Lists.
func (l lists) List(ctx context.Context, q world.Query) ([]map[string]any, error) {
	if !l.reach.Allows(q.Namespace) {
		return nil, &OutOfReachError{q.Kind, q.Namespace, "*", l.reach.Namespace()}
	}
	gv, err := schema.ParseGroupVersion(q.APIVersion)
	if err != nil {
		return nil, err
	}
	parsed, err := labels.Parse(q.Selector)
	if err != nil {
		return nil, err
	}
	var out []map[string]any
	options := &client.ListOptions{Namespace: q.Namespace, LabelSelector: parsed}
	if q.Name != "" {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, q.Name)
	}
	read := func(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
		options.Limit, options.Continue = o.Limit, o.Continue
		page := &unstructured.UnstructuredList{}
		page.SetGroupVersionKind(gv.WithKind(q.Kind + "List"))
		return page, l.reader.List(ctx, page, options)
	}
	_, err = controller.Pages(ctx, metav1.ListOptions{Limit: pageSize}, read, func(page *unstructured.UnstructuredList) error {
		for i := range page.Items {
			if err := within(l.reach, q.Kind, &page.Items[i]); err != nil {
				return err
			}
			out = append(out, page.Items[i].Object)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

type namespaces struct {
	labels func(context.Context, string) (map[string]string, error)
	reader client.Reader
	reach  world.Reach
}

// Labels implements world.Namespaces.
func (n namespaces) Labels(ctx context.Context, namespace string) (map[string]string, error) {
	if !n.reach.Allows(namespace) {
		return nil, &OutOfReachError{"Namespace", "", namespace, n.reach.Namespace()}
	}
	return n.labels(ctx, namespace)
}

// Namespace implements world.NamespaceObjects.
func (n namespaces) Namespace(ctx context.Context, namespace string) (map[string]any, error) {
	if !n.reach.Allows(namespace) {
		return nil, &OutOfReachError{"Namespace", "", namespace, n.reach.Namespace()}
	}
	return objects{n.reader, world.Cluster()}.Get(ctx, "v1", "Namespace", "", namespace)
}

type names struct{}

// LookupHost implements world.Names.
func (names) LookupHost(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

type clock struct{}

func (clock) Now() time.Time { return time.Now() }

type random struct{}

func (random) Intn(n int) int { return rand.IntN(n) }
