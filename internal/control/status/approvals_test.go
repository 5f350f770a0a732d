package status

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/policy"
)

func stored(name, policyName string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kyverno.io/v2", "kind": "PolicyException",
		"metadata": map[string]any{"name": name, "namespace": "n", "uid": "uid-" + name, "generation": int64(1)},
		"spec":     map[string]any{"exceptions": []any{map[string]any{"policyName": policyName, "ruleNames": []any{"r"}}}},
	}}
}

// server returns an API server that knows exceptions and Secrets.
func server(t *testing.T) *fake.ClientBuilder {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(stored("", ""))
}

// An approval whose write fails is written later.
func TestApprovalIsWrittenAfterAFailure(t *testing.T) {
	failures := []error{
		apierrors.NewInternalError(errors.New("no leader")), apierrors.NewConflict(schema.GroupResource{}, "e", errors.New("it was changed")),
	}
	c := interceptor.NewClient(server(t).WithObjects(stored("e", "p")).Build(), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if len(failures) == 0 {
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			}
			err := failures[0]
			failures = failures[1:]
			return err
		},
	})
	store := &keystore.Store{Client: c, Reader: c, Namespace: "ephor", Name: keystore.Exceptions}
	seals := keystore.Seals{Keys: &keystore.Cached{Load: store.Load, Now: time.Now}}
	a := NewApprovals(c, c, seals, slog.New(slog.DiscardHandler))
	a.Approve(stored("e", "p").Object, "jane")
	if _, err := a.once(t.Context()); err == nil {
		t.Error("the failure is not reported")
	}
	if again, err := a.once(t.Context()); again == 0 || err != nil {
		t.Errorf("again after a conflict in %s, %v", again, err)
	}
	if _, err := a.once(t.Context()); err != nil {
		t.Fatal(err)
	}
	u := stored("e", "")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
		t.Fatal(err)
	}
	if ok, err := approved(seals)(u.Object); err != nil || !ok {
		t.Errorf("approved %v, %v", ok, err)
	}
}

// An approval is written once the exception is stored as it was approved. A copy of it, or of the exception, proves nothing. After a rotation
// it is sealed again.
func TestApprovals(t *testing.T) {
	c := server(t).Build()
	store := &keystore.Store{Client: c, Reader: c, Namespace: "ephor", Name: keystore.Exceptions}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	seals := keystore.Seals{Keys: &keystore.Cached{Load: store.Load, Now: func() time.Time { return now }}}
	a := NewApprovals(c, c, seals, slog.New(slog.DiscardHandler))
	a.now = func() time.Time { return now }
	check := approved(seals)
	read := func(name string) map[string]any {
		u := stored(name, "")
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
			t.Fatal(err)
		}
		return u.Object
	}
	holds := func(what string, object map[string]any, want bool) {
		t.Helper()
		if ok, err := check(object); err != nil || ok != want {
			t.Errorf("%s: approved %v, %v", what, ok, err)
		}
	}
	round := func() (again time.Duration) {
		t.Helper()
		again, err := a.once(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return again
	}

	a.Approve(stored("e", "p").Object, "jane")
	if again := round(); again == 0 {
		t.Error("the exception is not stored yet, and the approval does not wait for it")
	}
	if err := c.Create(t.Context(), stored("e", "other")); err != nil {
		t.Fatal(err)
	}
	round()
	holds("another content was stored", read("e"), false)
	changed := &unstructured.Unstructured{Object: read("e")}
	changed.Object["spec"] = stored("e", "p").Object["spec"]
	if err := c.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if again := round(); again != 0 {
		t.Error("the approval waits although it is written")
	}
	holds("as it was approved", read("e"), true)

	copied := stored("copy", "p")
	copied.Object["status"] = read("e")["status"]
	holds("a copied approval", copied.Object, false)

	a.Approve(stored("never", "p").Object, "jane")
	now = now.Add(2 * approvalWait)
	if again := round(); again != 0 {
		t.Error("an approval waits for ever")
	}

	before := read("e")
	if _, err := store.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	holds("after a rotation", before, true)
	snapshot := catalog.New()
	snapshot.SetException(&policy.Exception{APIVersion: "kyverno.io/v2", Kind: "PolicyException", Namespace: "n", Name: "e", Source: func() map[string]any { return before }})
	if _, err := a.Renew(snapshot.Snapshot).Reconcile(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	holds("renewed", read("e"), true)
	if _, _, old := approvalOf(before); old == "" {
		t.Error("no approval")
	} else if _, _, proof := approvalOf(read("e")); proof == old {
		t.Error("the approval is not sealed again")
	}

	// Without its key, an approval proves nothing: who follows the exceptions checks them again.
	checks := 0
	keys := KeysOfApprovals(seals.Keys, func() { checks++ })
	follow := func(what string, want int) {
		t.Helper()
		now = now.Add(time.Hour)
		if _, err := keys.Reconcile(t.Context(), ""); err != nil || checks != want {
			t.Errorf("%s: %d checks, %v", what, checks, err)
		}
	}
	follow("at first", 0)
	follow("the same keys", 0)
	secret := &corev1.Secret{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ephor", Name: keystore.Exceptions}, secret); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	follow("other keys", 1)
	holds("the key is gone", read("e"), false)
}

// When too many approvals wait, one that is left out is reported, and a newer approval of an exception that waits replaces the older one.
func TestTooManyApprovals(t *testing.T) {
	var log bytes.Buffer
	c := server(t).Build()
	a := NewApprovals(c, c, keystore.Seals{}, slog.New(slog.NewTextHandler(&log, nil)))
	for i := range maxApprovals {
		a.Approve(stored(fmt.Sprint("e", i), "p").Object, "jane")
	}
	a.Approve(stored("e7", "q").Object, "joe")
	if log.Len() > 0 {
		t.Errorf("the log says %s", log.String())
	}
	if got := a.waiting[keyOf(stored("e7", ""))]; got.by != "joe" {
		t.Errorf("%s approved it", got.by)
	}
	a.Approve(stored("late", "p").Object, "jane")
	if text := log.String(); !strings.Contains(text, "kyverno.io/n/late") || !strings.Contains(text, "by=jane") {
		t.Errorf("the log says %q", text)
	}
}
