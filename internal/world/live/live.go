package live

import (
	"context"
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
	// Globals holds the data of GlobalContextEntries, for cluster-scoped policies only; nil for none. OfSecrets reports which are of Secrets.
	Globals         world.Globals
	GlobalOfSecrets func(name string) bool
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
		Objects: r.get(reach), Lists: r.list(reach), Kinds: r.Kinds, Namespaces: world.Namespaces{Labels: r.labels, Object: r.namespace},
		API: r.API, Resources: r.API, Images: r.Images, Signatures: r.Signatures, Seals: r.Seals, Access: r.Access,
		Names: addresses, Clock: clock{}, Rand: random{},
	}
	if reach.IsCluster() || r.NamespacedHTTP {
		w.HTTP = r.HTTP
	}
	if reach.IsCluster() {
		w.Services, w.Globals, w.GlobalOfSecrets = r.Services, r.Globals, r.GlobalOfSecrets
	}
	return w.Within(reach)
}

// get reads objects.
func (r *Root) get(reach world.Reach) world.Objects {
	return func(ctx context.Context, q world.ObjectRequest) (map[string]any, error) {
		gv, err := schema.ParseGroupVersion(q.APIVersion)
		if err != nil {
			return nil, err
		}
		var u unstructured.Unstructured
		u.SetGroupVersionKind(gv.WithKind(q.Kind.Kind))
		if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: q.Namespace, Name: q.Name}, &u); err != nil {
			return nil, err
		}
		if err := within(reach, q.Kind.Kind, &u); err != nil {
			return nil, err
		}
		return u.Object, nil
	}
}

// within returns an error for an object that was read and is out of reach. A reader ignores the namespace of a request for a kind that is
// cluster-scoped, so the namespace that was asked for proves nothing.
func within(reach world.Reach, kind string, o *unstructured.Unstructured) error {
	if !reach.Allows(o.GetNamespace()) {
		return &world.OutOfReachError{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), Reach: reach.Namespace()}
	}
	return nil
}

// pageSize bounds the number of objects in one page of a list.
const pageSize = 500

// list reads lists of objects, page by page.
func (r *Root) list(reach world.Reach) world.Lists {
	return func(ctx context.Context, q world.Query) (out []map[string]any, err error) {
		gv, err := schema.ParseGroupVersion(q.APIVersion)
		if err != nil {
			return nil, err
		}
		parsed, err := labels.Parse(q.Selector)
		if err != nil {
			return nil, err
		}
		options := &client.ListOptions{Namespace: q.Namespace, LabelSelector: parsed}
		if q.Name != "" {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, q.Name)
		}
		read := func(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
			options.Limit, options.Continue = o.Limit, o.Continue
			page := &unstructured.UnstructuredList{}
			page.SetGroupVersionKind(gv.WithKind(q.Kind + "List"))
			return page, r.Reader.List(ctx, page, options)
		}
		_, err = controller.Pages(ctx, metav1.ListOptions{Limit: pageSize}, read, func(page *unstructured.UnstructuredList) error {
			for i := range page.Items {
				if err := within(reach, q.Kind, &page.Items[i]); err != nil {
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
}

func (r *Root) labels(ctx context.Context, name world.NamespaceRequest) (map[string]string, error) {
	return r.Labels(ctx, string(name))
}

func (r *Root) namespace(ctx context.Context, name world.NamespaceRequest) (map[string]any, error) {
	return r.get(world.Cluster()).Get(ctx, "v1", "Namespace", "", string(name))
}

func addresses(ctx context.Context, host world.Host) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", string(host))
}

type clock struct{}

func (clock) Now() time.Time { return time.Now() }

type random struct{}

func (random) Intn(n int) int { return rand.IntN(n) }
