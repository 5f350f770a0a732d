package reports

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	reportsv1 "github.com/ephor-dev/ephor/api/reports/v1"
)

type tally struct{ rounds, again int }

func (c *tally) Reconciled(string)    { c.rounds++ }
func (c *tally) Requeued(string, int) { c.again++ }

// Results whose resource is not there yet wait for it, which is no failure; that nobody answers is one.
func TestWaitingIsNoFailure(t *testing.T) {
	api := fake.NewSimpleMetadataClient(fake.NewTestScheme())
	var down error
	api.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return down != nil, nil, down })
	seen := &tally{}
	c := NewConsumer(ConsumerOptions{
		Writer: New(Options{Metadata: api, Form: PolicyReports, Log: slog.New(slog.DiscardHandler), Now: time.Now}), Metadata: api,
		Workers: 1, Observer: seen, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	b := batch{}
	b.add(&reportsv1.EphemeralReport{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "x", CreationTimestamp: metav1.Now(),
		Labels:      map[string]string{"audit.kyverno.io/resource.gvr": "pods.v1.", "audit.kyverno.io/resource.uid": "1"},
		Annotations: map[string]string{"audit.kyverno.io/resource.name": "p", "audit.kyverno.io/resource.kind": "Pod", "audit.kyverno.io/resource.version": "v1"},
	}})
	if !c.take(t.Context(), b) || seen.rounds != 1 || seen.again != 0 {
		t.Errorf("waiting: %+v", seen)
	}
	down = errors.New("no answer")
	if !c.take(t.Context(), b) || seen.rounds != 2 || seen.again != 1 {
		t.Errorf("no answer: %+v", seen)
	}
}
