package globalctx

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"ephor.invalid/ephor/internal/globalentry"
)

// onlyLists lists one object of each resource, and watches without events.
type onlyLists struct {
	dynamic.NamespaceableResourceInterface
	size map[string]int // bytes by resource
	of   string
}

func (c onlyLists) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	c.of = r.Resource
	return c
}

func (c onlyLists) Namespace(string) dynamic.ResourceInterface { return c }

func (c onlyLists) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	one := resource("a", strings.Repeat("x", c.size[c.of]))
	return &unstructured.UnstructuredList{Object: map[string]any{"metadata": map[string]any{"resourceVersion": "1"}}, Items: []unstructured.Unstructured{*one}}, nil
}

func (onlyLists) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	w := watch.NewFake()
	context.AfterFunc(ctx, w.Stop)
	return w, nil
}

// An entry that takes more than half of the limit can be edited, and the room of a deleted one is used by another at once.
func TestRoomOfFormerEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := started(ctx, Options{Resources: onlyLists{size: map[string]int{"pods": 600, "secrets": 700}}, MaxBytes: 1000, Now: time.Now})
		has := func(name string, want bool) {
			t.Helper()
			time.Sleep(5 * time.Second) // less than overload
			synctest.Wait()
			if got := read(s, name); strings.HasPrefix(got, "[") != want {
				t.Errorf("%s: %.200s", name, got)
			}
		}
		of := func(name, resource, namespace string) *globalentry.Entry {
			return entry(t, name, fmt.Sprintf(`{kubernetesResource: {version: v1, resource: %s, namespace: %q}}`, resource, namespace))
		}
		s.Set(of("large", "pods", ""))
		has("large", true)
		for _, namespace := range []string{"a", "b"} {
			s.Set(of("large", "pods", namespace))
			has("large", true)
		}
		s.Set(of("other", "secrets", ""))
		has("other", false)
		s.Delete("large")
		has("other", true)
		s.Delete("other")
		synctest.Wait()
		if s.capacity.used != 0 {
			t.Errorf("%d bytes are counted for no entry", s.capacity.used)
		}
		stop()
		synctest.Wait()
	})
}
