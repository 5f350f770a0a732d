package vapgen

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/policy"
)

// An object that another client changes between the list and the write is no failure of the policy: Apply requests another round, which
// writes or deletes it. The API server's controller does so when it writes the status of a new ValidatingAdmissionPolicy.
func TestChangedMeanwhile(t *testing.T) {
	ctx := context.Background()
	id := policy.ID{Kind: "ClusterPolicy", Name: "p"}
	var interfere func() // called once, after the next list of policies
	stored := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	reader := interceptor.NewClient(stored, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if f := interfere; f != nil && strings.HasSuffix(list.GetObjectKind().GroupVersionKind().Kind, "PolicyList") {
				interfere = nil
				f()
			}
			return err
		},
	})
	r := &Reconciler{Client: stored, Reader: reader, Events: event.Discard, Log: slog.New(slog.DiscardHandler)}
	apply := func(want map[policy.ID]Output, unfinished bool) {
		t.Helper()
		failed, again, err := r.Apply(ctx, Round{Native: Validating, Version: "v1", Want: want})
		if err != nil || len(failed) > 0 || again != unfinished {
			t.Fatalf("failed %v, unfinished %v, %v; want unfinished %v", failed, again, err, unfinished)
		}
	}
	get := func() *admissionregistrationv1.ValidatingAdmissionPolicy {
		t.Helper()
		var list admissionregistrationv1.ValidatingAdmissionPolicyList
		if err := stored.List(ctx, &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) == 0 {
			return nil
		}
		return &list.Items[0]
	}
	change := func() {
		p := get()
		p.Annotations = map[string]string{"by": "another client"}
		if err := stored.Update(ctx, p); err != nil {
			t.Fatal(err)
		}
	}

	first, second := made(t, full), made(t, strings.Replace(full, ", message: needed", "", 1))
	apply(map[policy.ID]Output{id: first}, false)
	interfere = change
	apply(map[policy.ID]Output{id: second}, true)
	if get().Spec.Validations[0].Message == "" {
		t.Fatal("the stale write succeeded")
	}
	apply(map[policy.ID]Output{id: second}, false)
	if m := get().Spec.Validations[0].Message; m != "" {
		t.Errorf("the next round left the message %q", m)
	}

	interfere = change
	apply(nil, true)
	if get() == nil {
		t.Fatal("an object that changed meanwhile is deleted")
	}
	apply(nil, false)
	if get() != nil {
		t.Error("the next round left the object")
	}
}
