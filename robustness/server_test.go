package robustness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/admission"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// cluster provides the server's lookups for a review.
type cluster struct {
	labels func(namespace string) (map[string]string, error)
}

func (cluster) Roles(context.Context, *policy.User, string) (policy.Roles, error) {
	return policy.Roles{}, nil
}
func (c cluster) NamespaceLabels(_ context.Context, ns string) (map[string]string, error) {
	if c.labels == nil {
		return nil, nil
	}
	return c.labels(ns)
}
func (cluster) KindFor(_ context.Context, r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, nil
}
func (cluster) Find(policy.Target) ([]discovery.Resource, error) {
	return []discovery.Resource{{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}}, nil
}
func (cluster) BodyOf(string) []string { return nil }

// serve returns an open server with policies.
func serve(t testing.TB, c cluster, root world.Root, programs ...*policy.Program) *admission.Server {
	t.Helper()
	store := &settings.Store{}
	s, _ := settings.Parse(nil)
	store.Set(s)
	snapshot := catalog.NewStatic(programs)
	srv := admission.New(admission.Options{
		Namespace: "kyverno", Timeout: 10 * time.Second, AuditWorkers: 1, AuditCapacity: 1,
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Unix(0, 0) },
	}, func() *catalog.Snapshot { return snapshot }, store, root, c, func() error { return nil })
	srv.Open()
	return srv
}

// compileText compiles YAML or JSON policies, which must have no mistakes.
func compileText(t testing.TB, texts ...string) []*policy.Program {
	t.Helper()
	var out []*policy.Program
	for _, text := range texts {
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		v, err := value.DecodeJSON(raw)
		if err != nil {
			t.Fatal(err)
		}
		p, diags := compile.One(compile.Object{Value: v.(map[string]any)})
		if diags.HasErrors() {
			t.Fatalf("%v in\n%s", diags, text)
		}
		out = append(out, p)
	}
	return out
}

// review returns an AdmissionReview of Pods; old and object are JSON, empty for none.
func review(op, old, object string) []byte {
	or := func(s string) json.RawMessage {
		if s == "" {
			return json.RawMessage("null")
		}
		return json.RawMessage(s)
	}
	b, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": map[string]any{
		"uid": "u", "operation": op, "namespace": "d", "name": "p", "userInfo": map[string]any{"username": "u"},
		"kind": map[string]any{"group": "", "version": "v1", "kind": "Pod"}, "resource": map[string]any{"group": "", "version": "v1", "resource": "pods"},
		"object": or(object), "oldObject": or(old),
	}})
	if err != nil {
		panic(err)
	}
	return b
}

// post sends a review and returns the response; status is the HTTP status.
func post(t testing.TB, srv http.Handler, path string, body []byte) (res *admissionv1.AdmissionResponse, status int, text string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	srv.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return nil, w.Code, w.Body.String()
	}
	var out admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.Response == nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return out.Response, w.Code, ""
}

// verdict summarizes a response.
func verdict(res *admissionv1.AdmissionResponse, status int, text string) string {
	switch {
	case res == nil:
		return fmt.Sprintf("HTTP %d %s", status, text)
	case res.Allowed:
		return "allowed"
	case res.Result == nil:
		return "denied without a word"
	}
	return "denied: " + res.Result.Message
}

// compileAny compiles a policy that may have mistakes.
func compileAny(t testing.TB, text string) *policy.Program {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	v, err := value.DecodeJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	p, diags := compile.One(compile.Object{Value: v.(map[string]any)})
	if p == nil {
		t.Fatal(diags)
	}
	return p
}
