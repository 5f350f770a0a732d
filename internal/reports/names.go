package reports

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/fetch"
	"ephor.invalid/ephor/internal/report"
)

// name reports whether a report about the resource can exist and will be deleted with it. It sets the resource's current name.
func (w *Writer) name(r *report.Resource) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	st := w.known[reportOf(r)]
	if st == nil || st.version == "" || st.name == "" || st.kind != r.Kind {
		return false
	}
	r.Name, r.APIVersion = st.name, st.apiVersion
	return true
}

// names finds resources by their UID, and caches them for a short time: with generateName, an object has no name while it is admitted.
// Each namespace is listed once for all of them.
type names struct {
	metadata metadata.Interface
	mu       sync.Mutex
	lists    map[list]*fetch.Once[map[string]string] // UID → name
}

type list struct {
	gvr       schema.GroupVersionResource
	namespace string
}

// find looks up the resource, and adds the missing UID or name. A resource that is identified only by its name must have been created
// after since. An error means that the result is unknown.
func (n *names) find(ctx context.Context, gvr schema.GroupVersionResource, r *report.Resource, since time.Time) (there bool, err error) {
	var in metadata.ResourceInterface = n.metadata.Resource(gvr)
	if r.Namespace != "" {
		in = n.metadata.Resource(gvr).Namespace(r.Namespace)
	}
	if r.Name != "" {
		m, err := in.Get(ctx, r.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return false, nil
		case err != nil:
			return false, err
		case r.UID == "" && m.CreationTimestamp.Time.Before(since):
			return false, nil // it existed before, so the creation failed
		case r.UID == "":
			r.UID = string(m.UID)
		}
		return string(m.UID) == r.UID, nil
	}
	n.mu.Lock()
	at := list{gvr, r.Namespace}
	if n.lists == nil {
		n.lists = map[list]*fetch.Once[map[string]string]{}
	}
	l := n.lists[at]
	if l == nil {
		l = &fetch.Once[map[string]string]{}
		n.lists[at] = l
	}
	n.mu.Unlock()
	of, err := l.Get(ctx, func(ctx context.Context) (map[string]string, error) { return namesIn(ctx, in) })
	if err != nil {
		return false, err
	}
	r.Name, there = of[r.UID]
	return there, nil
}

// pageSize is the number of objects in one page of a list, as metadata.
const pageSize = 500

// namesIn returns the names of all objects by their UIDs, which it lists page by page.
func namesIn(ctx context.Context, in metadata.ResourceInterface) (map[string]string, error) {
	out := map[string]string{}
	_, err := controller.Pages(ctx, metav1.ListOptions{Limit: pageSize}, in.List, func(page *metav1.PartialObjectMetadataList) error {
		for i := range page.Items {
			out[string(page.Items[i].UID)] = page.Items[i].Name
		}
		return nil
	})
	return out, err
}
