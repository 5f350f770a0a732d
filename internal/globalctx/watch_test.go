package globalctx

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// shortWatches counts lists and watches; each watch ends at once.
type shortWatches struct {
	onlyLists
	asked *atomic.Int32
}

func (c shortWatches) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return c
}

func (c shortWatches) Namespace(string) dynamic.ResourceInterface { return c }

func (c shortWatches) List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	c.asked.Add(1)
	return c.onlyLists.List(ctx, o)
}

func (c shortWatches) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	c.asked.Add(1)
	w := watch.NewFake()
	w.Stop()
	return w, nil
}

// Watches that end at once do not cost the API server more than a few requests a minute.
func TestWatchesThatEndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		c := shortWatches{asked: &atomic.Int32{}}
		s := started(ctx, Options{Resources: c, Now: time.Now})
		s.Set(entry(t, "pods", `{kubernetesResource: {version: v1, resource: pods}}`))
		time.Sleep(time.Hour)
		if n := c.asked.Load(); n > 5*60 {
			t.Errorf("%d lists and watches in an hour", n)
		}
		stop()
		synctest.Wait()
	})
}
