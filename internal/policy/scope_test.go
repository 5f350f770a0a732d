package policy

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/jmespath"
	"github.com/ephor-dev/ephor/internal/value"
	"github.com/ephor-dev/ephor/internal/world"
)

func scope(r *Request) *Scope { return NewScope(&jmespath.Env{}, r, nil, nil) }

// An entry sees only what was defined before it, is loaded at most once, and only when used.
func TestScopeLazyEntries(t *testing.T) {
	loads := 0
	s := scope(&Request{}).With("one", "a").WithLazy("one", func(before *Scope) (any, error) {
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

// requestOf is the variable request, which has to hold the same as a whole and field by field.
func requestOf(t *testing.T, r *Request) map[string]any {
	t.Helper()
	v, ok, err := scope(r).Field("request")
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

// An old object that is not read is not decoded, and its mistakes affect only its readers.
func TestRequestFieldsAreReadAlone(t *testing.T) {
	v, _, _ := scope(&Request{Operation: Update, Object: value.Of(nil), OldObject: value.FromJSON("{")}).Field("request")
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
	r := &Request{Operation: Delete, OldObject: value.Of(map[string]any{"a": "b"})}
	if obj, _ := requestOf(t, r)["object"].(map[string]any); obj["a"] != "b" {
		t.Errorf("request.object = %v", obj)
	}
}

// In a scan request holds the object, the operation and the namespace, nothing else.
func TestRequestDocumentInScan(t *testing.T) {
	doc := requestOf(t, &Request{Origin: FromScan, Operation: Create})
	for _, absent := range []string{"userInfo", "name", "uid"} {
		if _, there := doc[absent]; there {
			t.Errorf("request.%s exists in a scan", absent)
		}
	}
}

// requestKind, requestResource and requestSubResource are what the requester asked for; what was sent where nothing else
// is known.
func TestRequestDocumentAsked(t *testing.T) {
	r := &Request{
		RequestGVK: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
		GVR:        schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Subresource: "scale",
	}
	read := func(r *Request) [4]any {
		doc := requestOf(t, r)
		kind, resource := doc["requestKind"].(map[string]any), doc["requestResource"].(map[string]any)
		return [4]any{kind["group"], kind["kind"], resource["group"], doc["requestSubResource"]}
	}
	if got, want := read(r), [4]any{"apps", "Deployment", "apps", "scale"}; got != want {
		t.Errorf("%v, not %v", got, want)
	}
	r = r.WithObject(nil)
	r.Asked = Asked{
		GVK: schema.GroupVersionKind{Group: "extensions", Version: "v1beta1", Kind: "Deployment"},
		GVR: schema.GroupVersionResource{Group: "extensions", Version: "v1beta1", Resource: "deployments"},
	}
	if got, want := read(r), [4]any{"extensions", "Deployment", "extensions", ""}; got != want {
		t.Errorf("%v, not %v", got, want)
	}
}

func TestServiceAccount(t *testing.T) {
	for user, want := range map[string][2]string{
		"system:serviceaccount:ns:sa": {"ns", "sa"}, "system:serviceaccount:ns": {"", ""}, "alice": {"", ""},
	} {
		ns, name := (&Request{User: &User{Username: user}}).ServiceAccount()
		if ns != want[0] || name != want[1] {
			t.Errorf("%s: %q %q", user, ns, name)
		}
	}
}

func TestActionFor(t *testing.T) {
	plan := ActionPlan{Default: Audit, Overrides: []ActionOverride{
		{Action: Deny, Namespaces: []string{"prod-*"}, Selector: func(l map[string]string) bool { return l["x"] == "y" }},
		{Action: Deny, Namespaces: []string{"always"}},
	}}
	r := &Rule{Action: plan}
	labels := func(l map[string]string, err error) func() (map[string]string, error) {
		return func() (map[string]string, error) { return l, err }
	}
	for _, c := range []struct {
		ns     string
		labels func() (map[string]string, error)
		want   Action
		err    bool
	}{
		{"dev", labels(nil, errors.New("must not be asked")), Audit, false},
		{"prod-1", labels(map[string]string{"x": "y"}, nil), Deny, false},
		{"prod-1", labels(nil, nil), Audit, false},
		{"prod-1", labels(nil, errors.New("gone")), Deny, true}, // unknown: the strictest
		{"always", labels(nil, errors.New("must not be asked")), Deny, false},
	} {
		got, err := ActionFor(r, c.ns, c.labels)
		if got != c.want || (err != nil) != c.err {
			t.Errorf("%s: %v %v", c.ns, got, err)
		}
	}
}

// What the entries of one rule load from outside is limited; entries of siblings, as foreach elements are, do not
// add up.
func TestHold(t *testing.T) {
	large := []any{strings.Repeat("x", DefaultContextSize*2/3)}
	root := scope(&Request{}).With("a", 1)
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

// Information that is not available here is an error for the rule that asks, never "none".
func TestUnknownIsAnError(t *testing.T) {
	r := &Request{Namespace: "ns", User: &User{Username: "alice"}}
	if _, err := r.NamespaceLabels(t.Context()); !errors.Is(err, world.ErrUnavailable) {
		t.Errorf("labels of a namespace that cannot be looked up: %v", err)
	}
	if _, err := r.Roles(t.Context()); !errors.Is(err, world.ErrUnavailable) {
		t.Errorf("roles of a user that cannot be looked up: %v", err)
	}
	nobody := &Request{}
	if _, err := nobody.NamespaceLabels(t.Context()); err != nil {
		t.Errorf("a cluster-scoped object lies in no namespace: %v", err)
	}
	if _, err := nobody.Roles(t.Context()); err != nil {
		t.Errorf("nobody has no roles: %v", err)
	}
}

// The setting maxContextSize takes the place of the default limit.
func TestHoldWithSetting(t *testing.T) {
	kib := strings.Repeat("x", 1<<10)
	for limit, want := range map[int]string{0: "", -1: "", 512: "exceeds limit of 512 bytes", 4 << 20: ""} {
		err := scope(&Request{Conf: Conf{MaxContextSize: limit}}).With("a", 1).Hold(kib)
		if (err == nil) != (want == "") || err != nil && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%d: %v", limit, err)
		}
	}
	if err := scope(&Request{Conf: Conf{MaxContextSize: -1}}).With("a", 1).Hold(strings.Repeat("x", 2*DefaultContextSize)); err != nil {
		t.Errorf("no limit: %v", err)
	}
}
