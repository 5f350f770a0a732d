package execute

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"context"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/policy"
)

// A patch that appends does so once for each request, also when its UpdateRequest comes twice, and once for each version of the trigger.
func TestWorkIsDoneOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		// then is the second request: its UID, operation, and whether it changes the trigger.
		uid       types.UID
		operation admissionv1.Operation
		changes   bool
		elsewhere bool // another replica carries it out
		needs     policy.Needs
		later     time.Duration
		want      string
	}{
		{name: "the same request", uid: "r1", operation: "CREATE", want: "x"},
		{name: "the same request in another replica", uid: "r1", operation: "CREATE", elsewhere: true, want: "x"},
		{name: "the same request an hour later", uid: "r1", operation: "CREATE", later: time.Hour, want: "xx"},
		{name: "an update whose version was seen", uid: "r2", operation: "UPDATE", changes: true, want: "x"},
		{name: "an update whose version was seen, in another replica", uid: "r2", operation: "UPDATE", changes: true, elsewhere: true, want: "x"},
		{name: "an update without changes", uid: "r2", operation: "UPDATE", want: "xx"},
		{name: "an update, with a rule that reads the operation", uid: "r2", operation: "UPDATE", changes: true, needs: policy.Needs{Operation: true}, want: "xx"},
		{name: "an update, with a rule that reads the requester", uid: "r2", operation: "UPDATE", changes: true, needs: policy.Needs{User: true}, want: "xx"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				trigger := configMapOf("n", "there", "u1", triggers)
				w, _ := newMarked(t, trigger)
				of := func(uid types.UID, operation admissionv1.Operation) *kyvernov2.UpdateRequest {
					u := workOf(t, "append", triggerSpec("n", "there", "u1"), operation, "u", trigger)
					u.Spec.RequestType = kyvernov2.Mutate
					u.Spec.Context.AdmissionRequestInfo.AdmissionRequest.UID = uid
					return u
				}
				withRequest(t, w, interceptor.Funcs{}, of("r1", "CREATE"), trigger, configMapOf("n", "target", "g", nil))
				program := &policy.Program{Kind: "ClusterPolicy", Name: "p", UID: "p", Rules: []*policy.Rule{{Name: "append", Stage: policy.StageMutateExisting, Reads: policy.Reads{Needs: c.needs}}}}
				w.Snapshot = func() *catalog.Snapshot { return catalog.NewStatic([]*policy.Program{program}) }
				w.Eval = appending(t, w, "target")
				w.Now = time.Now
				renew(w)
				run(t, w, "ur-1", 5)

				time.Sleep(executedQuiet + c.later)
				if _, err := w.Executed.Reconcile(t.Context()); err != nil {
					t.Fatal(err)
				}
				if c.elsewhere {
					w = NewWorker(w.WorkerOptions)
					if _, err := w.Executed.Reconcile(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				u := of(c.uid, c.operation)
				if c.changes {
					u.Spec.Context.AdmissionRequestInfo.AdmissionRequest.OldObject.Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"there","namespace":"n","uid":"u1","resourceVersion":"1"}}`)
				}
				u.Namespace, u.Name, u.UID, u.Generation = "ephor", "ur-2", "ur-2", 1
				if err := w.Client.Create(t.Context(), u); err != nil {
					t.Fatal(err)
				}
				run(t, w, "ur-2", 5)
				live := &corev1.ConfigMap{}
				if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "target"}, live); err != nil {
					t.Fatal(err)
				}
				if live.Data["log"] != c.want {
					t.Errorf("two requests appended %q, want %q", live.Data["log"], c.want)
				}
				if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(u), u); !apierrors.IsNotFound(err) {
					t.Errorf("the UpdateRequest is left: %v", err)
				}
			})
		})
	}
}

// While the work of a first request is retried for one target, a second request, whose version of the trigger it has seen, changes the others
// no second time; then the retry finds its work done. If the retry sees a later version, the second request still changes the other target.
// So it does if the failed write was made, and only its answer lost: what was written belongs to the version of that attempt.
func TestWorkIsDoneOnceWhileATargetFails(t *testing.T) {
	t.Run("one version", func(t *testing.T) { testOneTargetFails(t, false, false, "x", "x") })
	t.Run("a later version", func(t *testing.T) { testOneTargetFails(t, true, false, "xx", "x") })
	t.Run("one version, and an answer is lost", func(t *testing.T) { testOneTargetFails(t, false, true, "x", "x") })
	t.Run("a later version, and an answer is lost", func(t *testing.T) { testOneTargetFails(t, true, true, "xx", "xx") })
}

func testOneTargetFails(t *testing.T, later, made bool, good, bad string) {
	synctest.Test(t, func(t *testing.T) {
		trigger := configMapOf("n", "there", "u1", triggers)
		w, _ := newMarked(t, trigger)
		of := func(name string, uid types.UID, operation admissionv1.Operation) *kyvernov2.UpdateRequest {
			u := workOf(t, "append", triggerSpec("n", "there", "u1"), operation, "u", trigger)
			u.Spec.RequestType = kyvernov2.Mutate
			u.Spec.Context.AdmissionRequestInfo.AdmissionRequest.UID = uid
			u.Namespace, u.Name, u.UID, u.Generation = "ephor", name, types.UID(name), 1
			return u
		}
		fails := true
		withRequest(t, w, interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			switch {
			case o.GetName() != "bad" || !fails:
				return c.Update(ctx, o, opts...)
			case made:
				return errors.Join(c.Update(ctx, o, opts...), errors.New("connection reset by peer"))
			}
			return newer(o)
		}}, of("ur-1", "r1", "CREATE"), trigger, configMapOf("n", "good", "g", nil), configMapOf("n", "bad", "b", nil))
		program := &policy.Program{Kind: "ClusterPolicy", Name: "p", UID: "p", Rules: []*policy.Rule{{Name: "append", Stage: policy.StageMutateExisting}}}
		w.Snapshot = func() *catalog.Snapshot { return catalog.NewStatic([]*policy.Program{program}) }
		w.Eval, w.Now = appending(t, w, "good", "bad"), time.Now
		renew(w)
		run(t, w, "ur-1", 1)
		fails = false
		if later {
			live := &corev1.ConfigMap{}
			if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(trigger), live); err != nil {
				t.Fatal(err)
			}
			live.Data = map[string]string{"changed": "yes"}
			if err := w.Client.Update(t.Context(), live); err != nil {
				t.Fatal(err)
			}
		}
		if later || made {
			run(t, w, "ur-1", 5)
		}
		second := of("ur-2", "r2", "UPDATE")
		second.Spec.Context.AdmissionRequestInfo.AdmissionRequest.OldObject.Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"there","namespace":"n","uid":"u1","resourceVersion":"1"}}`)
		if err := w.Client.Create(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		run(t, w, "ur-2", 5)
		run(t, w, "ur-1", 5)
		for name, want := range map[string]string{"good": good, "bad": bad} {
			live := &corev1.ConfigMap{}
			if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: name}, live); err != nil {
				t.Fatal(err)
			}
			if live.Data["log"] != want {
				t.Errorf("%s has %q, want %q", name, live.Data["log"], want)
			}
		}
	})
}

// The record has a bound, in memory and in its ConfigMap; it forgets the oldest work first. Without the right to the ConfigMap it works in
// memory, and a ConfigMap that is damaged holds nothing.
func TestExecutedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := func(i uint64) digest { return digest(binary.BigEndian.AppendUint64(nil, i+1)) }
		var denied error
		c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if denied != nil {
					return denied
				}
				return c.Get(ctx, key, o, opts...)
			},
		}).Build()
		options := &WorkerOptions{Client: c, Namespace: "ephor", Log: slog.New(slog.DiscardHandler), Now: time.Now}
		x := newExecuted(options)
		for i := range uint64(2 * maxExecuted) {
			if i%1000 == 0 {
				time.Sleep(time.Second)
			}
			x.record(of(i))
		}
		if len(x.at) > maxExecuted || len(x.pending) > len(x.at) {
			t.Errorf("%d digests are known, %d are not stored", len(x.at), len(x.pending))
		}
		time.Sleep(executedQuiet)
		if _, err := x.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		other := newExecuted(options)
		if _, err := other.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(other.at) != maxExecutedStored || !other.has(of(2*maxExecuted-1)) || other.has(of(0)) || !x.has(of(2*maxExecuted-1)) {
			t.Errorf("%d digests are stored", len(other.at))
		}

		denied = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, ExecutedName, errors.New("no right"))
		x.record(of(1 << 40))
		time.Sleep(executedQuiet)
		if again, err := x.Reconcile(t.Context()); err != nil || again != 0 || len(x.pending) > 0 || !x.has(of(1<<40)) {
			t.Errorf("without the right: again in %s, %v, %d are kept for the ConfigMap", again, err, len(x.pending))
		}
		denied = nil
		cm := &corev1.ConfigMap{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ephor", Name: ExecutedName}, cm); err != nil {
			t.Fatal(err)
		}
		cm.BinaryData[executedKey] = []byte("short")
		if err := c.Update(t.Context(), cm); err != nil {
			t.Fatal(err)
		}
		other = newExecuted(options)
		if _, err := other.Reconcile(t.Context()); err != nil || len(other.at) != 0 {
			t.Errorf("a damaged record has %d digests: %v", len(other.at), err)
		}
		if fmt.Sprint(newExecuted(options).has(digest{})) != "false" {
			t.Error("work without an identity is never done already")
		}
	})
}
