package rule_test

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// parameterized is a World with parameters: namespaced Limits, and cluster-scoped Bounds.
type parameterized struct{ objects []map[string]any }

func (parameterized) Namespaced(_ context.Context, k world.Kind) (bool, error) {
	switch k.APIVersion + " " + k.Kind {
	case "example.com/v1 Limit":
		return true, nil
	case "example.com/v1 Bound":
		return false, nil
	}
	return false, &world.NoKindError{APIVersion: k.APIVersion, Kind: k.Kind}
}

func (c parameterized) Get(_ context.Context, r world.ObjectRequest) (map[string]any, error) {
	for _, o := range c.objects {
		m := o["metadata"].(map[string]any)
		if o["kind"] == r.Kind.Kind && m["namespace"] == r.Namespace && m["name"] == r.Name {
			return o, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: r.Kind.Kind}, r.Name)
}

func (c parameterized) List(_ context.Context, q world.Query) ([]map[string]any, error) {
	var out []map[string]any
	for _, o := range c.objects {
		m := o["metadata"].(map[string]any)
		if o["kind"] == q.Kind && m["namespace"] == q.Namespace && "use="+m["use"].(string) == q.Selector {
			out = append(out, o)
		}
	}
	return out, nil
}

func limit(kind, namespace, name, use string, max int64) map[string]any {
	return map[string]any{"apiVersion": "example.com/v1", "kind": kind, "max": max,
		"metadata": map[string]any{"namespace": namespace, "name": name, "use": use}}
}

// The lookup of parameters, and the result if there are none.
func TestParameters(t *testing.T) {
	c := parameterized{[]map[string]any{
		limit("Limit", "ns", "small", "yes", 2), limit("Limit", "ns", "large", "yes", 5), limit("Limit", "other", "small", "yes", 9),
		limit("Bound", "", "small", "yes", 1),
	}}
	w := world.World{Objects: c.Get, Lists: c.List, Kinds: world.Kinds{Namespaced: c.Namespaced}}
	const failed = "fail: too many"
	const passed = "pass: Validation rule 'r' passed."
	for _, test := range []struct {
		name, kind, ref, conditions, namespace string
		world                                  world.World
		want                                   string
	}{
		{"by name, in the namespace of the object", "Limit", "{name: small, parameterNotFoundAction: Deny}", "", "ns", w, failed},
		{"another", "Limit", "{name: large, parameterNotFoundAction: Deny}", "", "ns", w, passed},
		{"in a namespace", "Limit", "{name: small, namespace: other, parameterNotFoundAction: Deny}", "", "ns", w, passed},
		{"in a namespace, for a cluster-scoped object", "Limit", "{name: small, namespace: other, parameterNotFoundAction: Deny}", "", "", w, passed},
		{"no namespace", "Limit", "{name: small, parameterNotFoundAction: Allow}", "", "", w,
			"error: error in parameterized resource: cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"},
		{"cluster-scoped parameters", "Bound", "{name: small, parameterNotFoundAction: Deny}", "", "ns", w, failed},
		{"cluster-scoped parameters in a namespace", "Bound", "{name: small, namespace: ns, parameterNotFoundAction: Deny}", "", "ns", w,
			"error: error in parameterized resource: paramRef.namespace must not be provided for a cluster-scoped `paramKind`"},
		{"selected: none", "Limit", "{selector: {matchLabels: {use: yes1}}, parameterNotFoundAction: Allow}", "", "ns", w, passed},
		{"selected", "Limit", `{selector: {matchLabels: {use: "yes"}}, parameterNotFoundAction: Allow}`, "", "ns", w, failed},
		{"none, and that is allowed", "Limit", "{name: gone, parameterNotFoundAction: Allow}", "", "ns", w, passed},
		{"none, and that is not", "Limit", "{name: gone, parameterNotFoundAction: Deny}", "", "ns", w,
			"error: error in parameterized resource: no params found for policy binding with `Deny` parameterNotFoundAction"},
		{"an unknown kind", "Nope", "{name: small, parameterNotFoundAction: Deny}", "", "ns", w, "error: error in parameterized resource: paramKind kind `example.com/v1, Kind=Nope` not known"},
		{"preconditions see parameters", "Limit", "{name: small, parameterNotFoundAction: Deny}", "celPreconditions: [{name: a, expression: params.max > 100}]", "ns", w,
			"skip: cel preconditions not met"},
		{"nothing can be read", "Limit", "{name: small, parameterNotFoundAction: Allow}", "", "ns", world.World{Kinds: world.Kinds{Namespaced: c.Namespaced}},
			"error: error in parameterized resource: parameters are not available here"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := compileRule(t, []byte("name: r\nmatch: {any: [{resources: {kinds: [Thing]}}]}\n"+test.conditions+"\nvalidate:\n  cel:\n"+
				"    paramKind: {apiVersion: example.com/v1, kind: "+test.kind+"}\n    paramRef: "+test.ref+"\n"+
				"    expressions: [{expression: object.size <= params.max, message: too many}]\n    auditAnnotations: [{key: max, valueExpression: string(params.max)}]\n"), nil)
			s := call(request(map[string]any{"object": map[string]any{"apiVersion": "v1", "kind": "Thing", "size": int64(3),
				"metadata": map[string]any{"name": "x", "namespace": test.namespace}}}), r)
			s.Env.World = test.world
			y := r.Eval(s)
			if got := y.Status.String() + ": " + y.Message; got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			if y.Status == policy.StatusFail && fmt.Sprint(y.Properties) == "map[]" {
				t.Error("the audit annotation is not among the properties")
			}
		})
	}
}
