package cluster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/bounded"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/value"
)

// The limits of reading.
const (
	pageObjects = 100      // objects in one page of a list
	maxAnswer   = 64 << 20 // bytes of one answer of the API server
)

// The forms in which objects are read: whole, or their metadata only.
const (
	Whole        = "application/json"
	metadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	metadataOf   = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// errEnough is the error of a list whose rest is not needed.
var errEnough = errors.New("no further objects are needed")

// Options of a Reader.
type Options struct {
	// Kinds finds the kinds of the cluster.
	Kinds discovery.Resources
	// Families describes the kinds of policies; nil for Ephor's own.
	Families *compile.Registry
}

// Reader reads a cluster with the rights of its client. It is safe for concurrent use.
type Reader struct {
	client rest.Interface
	o      Options

	mu     sync.Mutex
	labels map[string]labelled
}

// labelled is the result of a lookup of a namespace.
type labelled struct {
	labels map[string]string
	err    error
}

// New returns a Reader.
func New(client rest.Interface, o Options) *Reader {
	return &Reader{client: client, o: o, labels: map[string]labelled{}}
}

// Client returns a client for a Reader. The pages of its lists have a limited size.
func Client(config *rest.Config) (rest.Interface, error) {
	config = controller.Paged(config)
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	return rest.UnversionedRESTClientFor(config)
}

// The limits of the requests of one user.
const userQPS, userBurst = 50, 100

// As returns a client with the rights of the owner of a token, and none of the rights in the configuration.
func As(config *rest.Config, token string) (rest.Interface, error) {
	user := rest.AnonymousClientConfig(config)
	user.BearerToken, user.QPS, user.Burst, user.RateLimiter = token, userQPS, userBurst, nil
	return Client(user)
}

// get reads an object or a list from the API server.
func (c *Reader) get(ctx context.Context, gvr schema.GroupVersionResource, namespace, name, form string, parameters map[string]string) (map[string]any, error) {
	prefix := []string{"/apis", gvr.Group, gvr.Version}
	if gvr.Group == "" {
		prefix = []string{"/api", gvr.Version}
	}
	r := c.client.Get().AbsPath(prefix...).NamespaceIfScoped(namespace, namespace != "").Resource(gvr.Resource).SetHeader("Accept", form)
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
	body, err := bounded.Read(stream, maxAnswer)
	if err := errors.Join(err, stream.Close()); err != nil {
		return nil, fmt.Errorf("read the answer of the API server: %w", err)
	}
	v, err := value.DecodeJSON(body)
	if err != nil {
		return nil, err
	}
	object, _ := v.(map[string]any)
	return object, nil
}

// Get reads an object.
func (c *Reader) Get(ctx context.Context, gvr schema.GroupVersionResource, namespace, name string) (map[string]any, error) {
	return c.get(ctx, gvr, namespace, name, Whole, nil)
}

// Where selects the namespaces in which objects are listed.
type Where struct {
	// Namespaces are listed one by one; empty to list all at once.
	Namespaces []string
	// Visible are the namespaces that are listed one by one if the user may not list all at once.
	Visible []string
}

// List yields the objects of a resource, with their apiVersion and kind. It yields an error for each list that the user may not read, and one
// that ends the list.
func (c *Reader) List(ctx context.Context, k discovery.Resource, w Where) iter.Seq2[map[string]any, error] {
	return c.list(ctx, k, w, Whole)
}

// Metas yields the metadata of the objects of a resource, like List.
func (c *Reader) Metas(ctx context.Context, k discovery.Resource, w Where) iter.Seq2[metav1.ObjectMeta, error] {
	return func(yield func(metav1.ObjectMeta, error) bool) {
		for object, err := range c.list(ctx, k, w, metadataList) {
			if !yield(metaOf(object), err) {
				return
			}
		}
	}
}

func (c *Reader) list(ctx context.Context, k discovery.Resource, w Where, form string) iter.Seq2[map[string]any, error] {
	return func(yield func(map[string]any, error) bool) {
		namespaces := w.Namespaces
		if !k.Namespaced || len(namespaces) == 0 {
			err := c.pages(ctx, k, "", form, yield)
			if err == nil || err == errEnough || !yield(nil, err) || !apierrors.IsForbidden(err) || !k.Namespaced {
				return
			}
			namespaces = w.Visible
		}
		for _, ns := range namespaces {
			err := c.pages(ctx, k, ns, form, yield)
			if err == errEnough || err != nil && (!yield(nil, err) || !apierrors.IsForbidden(err)) {
				return
			}
		}
	}
}

// page is a page of a list.
type page map[string]any

func (p page) field(name string) string {
	metadata, _ := p["metadata"].(map[string]any)
	text, _ := metadata[name].(string)
	return text
}

// GetResourceVersion and GetContinue implement controller.Page.
func (p page) GetResourceVersion() string { return p.field("resourceVersion") }
func (p page) GetContinue() string        { return p.field("continue") }

// pages yields the objects of a list until yield returns false, or returns the error because of which it ends.
func (c *Reader) pages(ctx context.Context, k discovery.Resource, namespace, form string, yield func(map[string]any, error) bool) error {
	list := func(ctx context.Context, o metav1.ListOptions) (page, error) {
		parameters := map[string]string{"limit": strconv.FormatInt(o.Limit, 10)}
		if o.Continue != "" {
			parameters["continue"] = o.Continue
		}
		return c.get(ctx, k.GVR(), namespace, "", form, parameters)
	}
	_, err := controller.Pages(ctx, metav1.ListOptions{Limit: pageObjects}, list, func(p page) error {
		items, _ := p["items"].([]any)
		for _, item := range items {
			object, ok := item.(map[string]any)
			if !ok {
				continue
			}
			object["apiVersion"], object["kind"] = k.APIVersion(), k.Kind // items of a list have no apiVersion and kind
			if !yield(object, nil) {
				return errEnough
			}
		}
		return nil
	})
	if err != nil && err != errEnough {
		err = fmt.Errorf("list %s: %w", k.GVR().GroupResource(), err)
	}
	return err
}

// NamespaceLabels returns the labels of a namespace, which it reads once.
func (c *Reader) NamespaceLabels(ctx context.Context, name string) (map[string]string, error) {
	c.mu.Lock()
	l, known := c.labels[name]
	c.mu.Unlock()
	if known {
		return l.labels, l.err
	}
	object, err := c.get(ctx, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", name, metadataOf, nil)
	l = labelled{metaOf(object).Labels, err}
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) { // another error says nothing about the namespace
		c.mu.Lock()
		c.labels[name] = l
		c.mu.Unlock()
	}
	return l.labels, l.err
}

// metaOf returns the metadata of an object, as far as they can be decoded.
func metaOf(object map[string]any) (m metav1.ObjectMeta) {
	metadata, err := yaml.Marshal(object["metadata"])
	if err == nil {
		_ = yaml.Unmarshal(metadata, &m)
	}
	return m
}
