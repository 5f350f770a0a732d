package webhooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/status"
	"ephor.invalid/ephor/internal/webhookconf"
)

// A webhook that is called for all namespaces is logged when this state begins and when it ends, not in each round.
func TestT4UnconfinedWebhooksAreLogged(t *testing.T) {
	var out bytes.Buffer
	f := &Reconciler{Log: slog.New(slog.NewTextHandler(&out, nil))}
	for _, c := range []struct {
		webhooks []string
		want     string // empty for no line
	}{
		{nil, ""},
		{[]string{"validate.kyverno.svc-fail"}, "level=WARN"},
		{[]string{"validate.kyverno.svc-fail"}, ""},
		{[]string{"mutate.kyverno.svc-fail", "validate.kyverno.svc-fail"}, "mutate.kyverno.svc-fail"},
		{nil, "level=INFO"},
		{nil, ""},
	} {
		out.Reset()
		f.warnUnconfined(c.webhooks)
		if got := out.String(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q: logged %q, want %q", c.webhooks, got, c.want)
		}
	}
}

// T17: the policies whose webhooks are left out are counted by scope.
func TestT17LeftOutPoliciesAreCounted(t *testing.T) {
	programs := []*policy.Program{{Kind: "A", Name: "out"}, {Kind: "A", Name: "broken"}, {Kind: "A", Name: "fine"}, {Kind: "B", Namespace: "team", Name: "out"}, {Kind: "B", Namespace: "team", Name: "too"}}
	left := webhookconf.LeftOut{}
	clusterWide, namespaced := countLeftOut(programs, webhookconf.Readiness{"A/out": left, "A/broken": errors.New("a mistake"), "A/fine": nil, "B/team/out": left, "B/team/too": fmt.Errorf("more: %w", left)})
	if clusterWide != 1 || namespaced != 2 {
		t.Errorf("%d cluster-wide and %d namespaced", clusterWide, namespaced)
	}
}

// A Program stays configured until its policy has another one.
func TestConfirm(t *testing.T) {
	f := &Reconciler{}
	first, second, changed := &policy.Program{Name: "first"}, &policy.Program{Name: "second"}, &policy.Program{Name: "second"}
	if f.Configured(first) {
		t.Error("nothing is written")
	}
	f.confirm([]*policy.Program{first, second}, func(*policy.Program) bool { return true })
	f.confirm([]*policy.Program{first, changed}, f.Configured) // nothing could be written
	if !f.Configured(first) || f.Configured(second) || f.Configured(changed) {
		t.Errorf("configured: %v, %v, %v", f.Configured(first), f.Configured(second), f.Configured(changed))
	}
}

// A round names each policy whose status it could not write.
func TestEachStatusThatIsNotWrittenIsNamed(t *testing.T) {
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return errors.New("no right")
		},
	})
	f := &Reconciler{
		Status: &status.Writer{Client: c}, Asked: NewAnswers(c, time.Now), Rights: &ScanRights{}, Log: slog.New(slog.DiscardHandler),
		Withholds: func(*policy.Program) bool { return false },
	}
	objects, broken := map[policy.ID]*unstructured.Unstructured{}, map[policy.ID]error{}
	for _, name := range []string{"a", "b"} {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": map[string]any{"name": name}}}
		id := policy.ID{Kind: "ClusterPolicy", Name: name}
		objects[id], broken[id] = u, errors.New("a mistake")
	}
	_, err := f.writeStatuses(t.Context(), objects, broken, nil, nil)
	if text := fmt.Sprint(err); !strings.Contains(text, "ClusterPolicy /a: no right") || !strings.Contains(text, "ClusterPolicy /b: no right") {
		t.Errorf("the round says %q", text)
	}
}
