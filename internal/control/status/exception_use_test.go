package status

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	policystatus "ephor.invalid/ephor/internal/status"
)

// counted is a client that counts the writes of statuses.
func counted(t *testing.T) (c client.Client, writes *int) {
	t.Helper()
	kind := &unstructured.Unstructured{}
	kind.SetAPIVersion("kyverno.io/v2")
	kind.SetKind("PolicyException")
	c = fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithStatusSubresource(kind).WithObjects(stored("e", "p")).Build()
	writes = new(int)
	return countingClient{c, writes}, writes
}

type countingClient struct {
	client.Client
	writes *int
}

func (c countingClient) Status() client.SubResourceWriter {
	return countingWriter{c.Client.Status(), c.writes}
}

type countingWriter struct {
	client.SubResourceWriter
	writes *int
}

func (w countingWriter) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	*w.writes++
	return w.SubResourceWriter.Patch(ctx, o, p, opts...)
}

var used = &policy.Exception{
	APIVersion: "kyverno.io/v2", Kind: "PolicyException", Namespace: "n", Name: "e", UID: "uid-e", Rules: []policy.ExceptionRules{{Policy: "p", Names: []string{"r"}}},
}

// Requests that an exception exempts are counted by every replica. The first use is written at once, and later ones once in two turns; the
// objects are counted from reports in the other turns. So a status is written at most once in ten minutes.
func TestExceptionUse(t *testing.T) {
	c, writes := counted(t)
	now := time.Date(2026, 1, 31, 12, 1, 0, 0, time.UTC)
	if mine, _, _ := policystatus.Turn(now, false); !mine {
		now = now.Add(policystatus.ExceptionTurn)
	}
	clock := func() time.Time { return now }
	replicas := []*ExceptionUse{NewExceptionUse(c, c), NewExceptionUse(c, c)}
	for _, r := range replicas {
		r.now = clock
	}
	kind := schema.GroupVersionResource{Group: "wgpolicyk8s.io", Version: "v1alpha2", Resource: "policyreports"}
	report := func(name, without string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": map[string]any{"name": name, "namespace": "n"},
			"scope": map[string]any{"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": "n"},
			"results": []any{
				map[string]any{"policy": "p", "rule": "r", "result": "skip", "properties": map[string]any{"exceptions": "e,other", "withoutException": without}},
				map[string]any{"policy": "q", "rule": "r", "result": "skip", "properties": map[string]any{"exceptions": "e"}},
			},
		}}
	}
	snapshot := catalog.New()
	snapshot.SetException(used)
	objects := &ExceptionObjects{
		Client: c, Reader: c, Kinds: []schema.GroupVersionResource{kind}, Snapshot: snapshot.Snapshot, Now: clock,
		Reports: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{kind: "PolicyReportList"}, report("a", "fail"), report("b", "pass"), report("c", "")),
	}
	request := func(replica int, uid string, dry bool) {
		result := policy.Result{Program: &policy.Program{Name: "p"}, Rule: &policy.Rule{Name: "r"}, Yield: policy.Yield{Status: policy.StatusSkip, Exceptions: []*policy.Exception{used}}}
		replicas[replica].Eval(func(context.Context, engine.Input) policy.Outcome {
			return policy.Outcome{Results: []policy.Result{result, result}}
		})(
			t.Context(), engine.Input{Request: &policy.Request{Review: policy.Review{UID: uid, DryRun: dry}}})
	}
	round := func(what string, wantWrites int, want string) {
		t.Helper()
		for _, r := range replicas {
			if again, err := r.once(t.Context()); err != nil || again <= 0 {
				t.Fatal(again, err)
			}
		}
		if again, err := objects.once(t.Context()); err != nil || again <= 0 {
			t.Fatal(again, err)
		}
		u := stored("e", "")
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
			t.Fatal(err)
		}
		got := ""
		if use := policystatus.UseOf(u.Object); use != nil {
			got = fmt.Sprint(use.Days, use.Rules, " ", policystatus.PerDay(use, now))
		}
		if o := policystatus.ObjectsOf(u.Object); o != nil {
			got += fmt.Sprint(" objects ", o.Exempt, o.Needed, o.Unneeded, o.Rules)
		}
		if got != want || *writes != wantWrites {
			t.Errorf("%s: %q after %d writes, want %q after %d", what, got, *writes, want, wantWrites)
		}
	}
	request(0, "dry", true)
	round("a dry run", 0, "")
	request(0, "a", false)
	request(0, "a", false) // another evaluation of the request
	request(1, "b", false)
	round("the first use; the other replica waits", 1, "[{2026-01-31 1}] [p/r] 1")
	request(0, "c", false)
	round("the same turn", 1, "[{2026-01-31 1}] [p/r] 1")
	now = now.Add(policystatus.ExceptionTurn)
	round("the turn of the objects", 2, "[{2026-01-31 1}] [p/r] 1 objects 3 1 1 [p/r]")
	now = now.Add(policystatus.ExceptionTurn)
	round("the turn of the use", 3, "[{2026-01-31 2}] [p/r] 2 objects 3 1 1 [p/r]")
	now = now.Add(policystatus.ExceptionTurn)
	round("the objects are the same", 3, "[{2026-01-31 2}] [p/r] 2 objects 3 1 1 [p/r]")
	now = now.Add(policystatus.ExceptionTurn)
	round("the other replica", 4, "[{2026-01-31 3}] [p/r] 3 objects 3 1 1 [p/r]")
	for day := range 20 {
		now = now.Add(24 * time.Hour)
		request(0, fmt.Sprint("day", day), false)
		if _, err := replicas[0].once(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	u := stored("e", "")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
		t.Fatal(err)
	}
	if use := policystatus.UseOf(u.Object); len(use.Days) != 14 || use.Days[13].Day != "2026-02-20" {
		t.Errorf("%v", use.Days)
	}
}
