package reports

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"ephor.invalid/ephor/internal/report"
)

// slowList is an API server that answers a list when release is closed.
type slowList struct {
	metadata.ResourceInterface
	asked   chan struct{}
	release chan struct{}
}

func (s *slowList) Resource(schema.GroupVersionResource) metadata.Getter { return s }
func (s *slowList) Namespace(string) metadata.ResourceInterface          { return s }

func (s *slowList) List(ctx context.Context, _ metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	s.asked <- struct{}{}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.release:
		return &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "web-1", UID: types.UID("u")}}}}, nil
	}
}

// A caller that gives up while the names are listed does not give its error to the others, and does not wait for the list.
func TestNamesAfterACallerGaveUp(t *testing.T) {
	s := &slowList{asked: make(chan struct{}, 10), release: make(chan struct{})}
	n := &names{metadata: s}
	find := func(ctx context.Context) (string, error) {
		r := report.Resource{Namespace: "shop"}
		r.UID = "u"
		_, err := n.find(ctx, schema.GroupVersionResource{Version: "v1", Resource: "pods"}, &r, time.Time{})
		return r.Name, err
	}
	first, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := find(first)
		gone <- err
	}()
	<-s.asked
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(s.release)
	if name, err := find(t.Context()); name != "web-1" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
}
