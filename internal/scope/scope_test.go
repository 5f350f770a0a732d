package scope

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

func scopeOf(r *policy.Request) *Scope { return New(&policy.Call{Env: &evalenv.Env{}, Request: r}) }

// An entry sees only earlier entries, and is loaded at most once and only when used.
func TestScopeLazyEntries(t *testing.T) {
	loads := 0
	s := scopeOf(&policy.Request{}).With("one", "a").WithLazy("one", func(before *Scope) (any, error) {
		loads++
		v, _, err := before.Field("one")
		return v.(string) + "b", err
	}).WithLazy("broken", func(*Scope) (any, error) { return nil, errors.New("no") })
	if loads != 0 {
		t.Fatal("loaded before it was used")
	}
	for range 2 {
		if v, ok, err := s.Field("one"); v != "ab" || !ok || err != nil {
			t.Errorf("one = %v %v %v", v, ok, err)
		}
	}
	if loads != 1 {
		t.Errorf("loaded %d times", loads)
	}
	if _, ok, err := s.Field("broken"); ok || err == nil {
		t.Error("a broken entry must give its error at the place of use")
	}
	if _, ok, err := s.Field("missing"); ok || err != nil {
		t.Error("a missing name is neither a value nor an error")
	}
	if _, err := s.Value(); err == nil {
		t.Error("the whole context holds a broken entry")
	}
}

// requestOf returns the variable request, which must be the same as a whole and field by field.
func requestOf(t *testing.T, r *policy.Request) map[string]any {
	t.Helper()
	v, ok, err := scopeOf(r).Field("request")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	root := v.(jmespath.Root)
	whole, err := root.Value()
	if err != nil {
		t.Fatal(err)
	}
	document := whole.(map[string]any)
	for name, want := range document {
		if got, ok, err := root.Field(name); !ok || err != nil || !value.Equal(got, want) {
			t.Errorf("request.%s is %v (%v), of the whole %v", name, got, err, want)
		}
	}
	for _, name := range []string{"operation", "namespace", "object", "oldObject", "uid", "userInfo", "missing"} {
		if _, want := document[name]; want {
			continue
		}
		if v, ok, err := root.Field(name); ok || err != nil {
			t.Errorf("request.%s is %v (%v), and not in the whole", name, v, err)
		}
	}
	return document
}

// An unused old object is not decoded, and its mistakes affect only its readers.
func TestRequestFieldsAreReadAlone(t *testing.T) {
	v, _, _ := scopeOf(&policy.Request{Review: policy.Review{Operation: policy.Update, Object: value.Of(nil), OldObject: value.FromJSON("{")}}).Field("request")
	root := v.(jmespath.Root)
	if operation, ok, err := root.Field("operation"); operation != "UPDATE" || !ok || err != nil {
		t.Error(operation, ok, err)
	}
	if _, ok, err := root.Field("oldObject"); ok || err == nil {
		t.Error("a broken object is there")
	}
}

// On DELETE every mention of request.object is read as request.oldObject.
func TestRequestDocumentOnDelete(t *testing.T) {
	r := &policy.Request{Review: policy.Review{Operation: policy.Delete, OldObject: value.Of(map[string]any{"a": "b"})}}
	if obj, _ := requestOf(t, r)["object"].(map[string]any); obj["a"] != "b" {
		t.Errorf("request.object = %v", obj)
	}
}

// In a scan request holds the object, the operation and the namespace, nothing else.
func TestRequestDocumentInScan(t *testing.T) {
	doc := requestOf(t, &policy.Request{Review: policy.Review{Origin: policy.FromScan, Operation: policy.Create}})
	for _, absent := range []string{"userInfo", "name", "uid"} {
		if _, there := doc[absent]; there {
			t.Errorf("request.%s exists in a scan", absent)
		}
	}
}

// requestKind, requestResource and requestSubResource are those of the original request, or of the review if nothing else is known.
func TestRequestDocumentAsked(t *testing.T) {
	r := &policy.Request{Review: policy.Review{
		RequestGVK: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		GVR:        schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Subresource: "scale",
	}}
	read := func(r *policy.Request) [4]any {
		doc := requestOf(t, r)
		kind, resource := doc["requestKind"].(map[string]any), doc["requestResource"].(map[string]any)
		return [4]any{kind["group"], kind["kind"], resource["group"], doc["requestSubResource"]}
	}
	if got, want := read(r), [4]any{"apps", "Deployment", "apps", "scale"}; got != want {
		t.Errorf("%v, not %v", got, want)
	}
	r = r.WithObject(nil)
	r.Asked = policy.Asked{
		GVK: schema.GroupVersionKind{Group: "extensions", Version: "v1beta1", Kind: "Deployment"},
		GVR: schema.GroupVersionResource{Group: "extensions", Version: "v1beta1", Resource: "deployments"},
	}
	if got, want := read(r), [4]any{"extensions", "Deployment", "extensions", ""}; got != want {
		t.Errorf("%v, not %v", got, want)
	}
}

// Data that the entries of one rule load is limited; entries of siblings, such as foreach elements, do not add up.
func TestHold(t *testing.T) {
	large := []any{strings.Repeat("x", DefaultContextSize*2/3)}
	root := scopeOf(&policy.Request{}).With("a", 1)
	if err := root.Hold(large); err != nil {
		t.Fatal(err)
	}
	for range 3 { // elements
		element := root.With("element", 1)
		if err := element.Hold(strings.Repeat("x", DefaultContextSize/4)); err != nil {
			t.Errorf("a small one: %v", err)
		}
		err := element.With("b", 1).Hold(large)
		if err == nil || !strings.HasPrefix(err.Error(), "context size limit exceeded: ") || !strings.HasSuffix(err.Error(), " bytes exceeds limit of 2097152 bytes") {
			t.Errorf("%v", err)
		}
	}
}

// The setting maxContextSize replaces the default limit.
func TestHoldWithSetting(t *testing.T) {
	kib := strings.Repeat("x", 1<<10)
	for limit, want := range map[int]string{0: "", -1: "", 512: "exceeds limit of 512 bytes", 4 << 20: ""} {
		err := scopeOf(&policy.Request{Review: policy.Review{Conf: policy.Conf{MaxContextSize: limit}}}).With("a", 1).Hold(kib)
		if (err == nil) != (want == "") || err != nil && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%d: %v", limit, err)
		}
	}
	if err := scopeOf(&policy.Request{Review: policy.Review{Conf: policy.Conf{MaxContextSize: -1}}}).With("a", 1).Hold(strings.Repeat("x", 2*DefaultContextSize)); err != nil {
		t.Errorf("no limit: %v", err)
	}
}
