package execute

import (
	"errors"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "github.com/ephor-dev/ephor/api/kyverno/v2"
	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/updaterequest"
)

// An object that is being deleted does not count as generated: the work waits until it is gone, fails if that takes long, and generates it
// again.
func TestObjectsThatAreBeingDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		generation policy.Generation
		operation  admissionv1.Operation
		foreign    bool // the rule did not generate the object
	}{
		"created":            {policy.Generation{Synchronize: true}, "CREATE", false},
		"updated":            {policy.Generation{Synchronize: true}, "UPDATE", false},
		"not synchronized":   {policy.Generation{}, "UPDATE", false},
		"applied":            {policy.Generation{Synchronize: true, ServerSideApply: true}, "CREATE", false},
		"own":                {policy.Generation{Synchronize: true, Own: true}, "CREATE", false},
		"own, applied":       {policy.Generation{Synchronize: true, Own: true, ServerSideApply: true}, "CREATE", false},
		"of another, own":    {policy.Generation{Synchronize: true, Own: true}, "CREATE", true},
		"of another, shared": {policy.Generation{Synchronize: true}, "CREATE", true},
	} {
		trigger := triggerSpec("n", "there", "u1")
		old := configMapOf("n", "there-made", "d", nil)
		if !c.foreign {
			old.Labels = claiming("anybody", "n", "u1")
			markedAs(t, old, "anybody", trigger, false)
		}
		old.Data = map[string]string{"k": "v"}
		old.Finalizers = []string{"example.com/slow"}
		at := metav1.NewTime(time.Now().Add(-time.Minute))
		old.DeletionTimestamp = &at
		w, events := newMarked(t, configMapOf("n", "there", "u1", triggers), old)
		program := *w.Snapshot().Programs()[0]
		rule := *program.Rules[0]
		rule.Generation, program.Rules = &c.generation, []*policy.Rule{&rule}
		w.Snapshot = func() *catalog.Snapshot { return catalog.NewStatic([]*policy.Program{&program}) }
		work := func(waited time.Duration) error {
			u := workOf(t, "anybody", trigger, c.operation, "u", configMapOf("n", "there", "u1", triggers))
			return w.one(t.Context(), &task{u: u, RuleContext: updaterequest.Rules(&u.Spec)[0], reads: w.NewReads([]kyvernov2.ResourceSpec{trigger}), waited: waited})
		}
		if err := work(0); !errors.As(err, &notYetError{}) || len(events.all) > 0 {
			t.Errorf("%s: the object is being deleted: %v, %q", name, err, events.all)
		}
		if err := work(patience + 1); err == nil || errors.As(err, &notYetError{}) || !strings.Contains(err.Error(), "example.com/slow") || !events.has("is being deleted") {
			t.Errorf("%s: the object is still being deleted: %v, %q", name, err, events.all)
		}
		live := &corev1.ConfigMap{}
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(old), live); err != nil {
			t.Fatal(err)
		}
		live.Finalizers = nil
		if err := w.Client.Update(t.Context(), live); err != nil {
			t.Fatal(err)
		}
		if err := work(patience + 1); err != nil {
			t.Errorf("%s: the object is gone: %v", name, err)
		}
		live = &corev1.ConfigMap{}
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(old), live); err != nil || live.DeletionTimestamp != nil {
			t.Errorf("%s: it is not generated again: %v, %+v", name, err, live)
		}
	}
}
