package compiler_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/cel/compiler"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/world"
)

type object = map[string]any

var pod = object{
	"apiVersion": "v1", "kind": "Pod",
	"metadata": object{"name": "web", "labels": object{"app": "x"}},
	"spec": object{
		"replicas":   int64(3),
		"weight":     2.5,
		"containers": []any{object{"name": "a", "image": "nginx:1"}, object{"name": "b", "image": "busybox"}},
	},
}

// source returns fixed values, or the failure.
type source struct {
	request, namespace any
	failure            error
	authorizer         *env.Authorizer
}

func (s source) Request() (any, error)       { return s.request, s.failure }
func (s source) Namespace() (any, error)     { return s.namespace, s.failure }
func (s source) Authorizer() *env.Authorizer { return s.authorizer }

func evaluation(t *testing.T, c *compiler.Compiler, in *run.Input) *run.Evaluation {
	t.Helper()
	return c.Variables().Evaluate(t.Context(), in, price.Budget)
}

func TestBool(t *testing.T) {
	for _, c := range []struct{ expression, want string }{
		{"object.metadata.name == 'web'", "true"},
		{"object.spec.replicas == 3 && object.spec.replicas >= 2.5", "true"},
		{"object.spec.weight < 3", "true"},
		{"oldObject == null", "true"},
		{"object.spec.containers.all(c, c.image.contains(':'))", "false"},
		{"object.spec.?initContainers.orValue([]).size() == 0", "true"},
		{"'app' in object.metadata.labels", "true"},
		{"object.spec.containers in ['a', 'b'] || object.metadata in [1, 2]", "false"},
		{"object.spec.containers in {'a': 1} || object.metadata in {1: 2} || object.metadata.labels in {object.metadata.name: 1}", "false"},
		{"dyn({dyn(object.metadata): 1}).size() == 1 && dyn({dyn(object.spec.containers): 1}).size() == 1", "true"},
		{"object.metadata.name in ['api', 'web'] && object.spec.replicas in [1, 3] && !(object.?nope.orValue(null) in [true])", "true"},
		{"quantity('1Gi').isGreaterThan(quantity('1Mi'))", "true"},
		{"request.operation == 'CREATE' && request.namespace == 'ns'", "true"},
		{"namespaceObject.metadata.name == 'ns'", "true"},
		{"authorizer.group('').resource('pods').namespace('ns').check('create').allowed()", "true"},
		{"authorizer.requestResource.check('delete').allowed()", "false"},
		{"authorizer.requestResource.check('delete').reason() == 'nobody may delete'", "true"},
		{"variables.names == ['a', 'b'] && variables.count == 2", "true"},
		{"object.spec.nope", "expression 'object.spec.nope' resulted in error: no such key: nope"},
		{"variables.broken == 1", "expression 'variables.broken == 1' resulted in error: composited variable \"broken\" fails to evaluate: no such key: nope"},
	} {
		compiler := compiler.New(env.Declarations{})
		for _, v := range [][2]string{{"names", "object.spec.containers.map(c, c.name)"}, {"count", "variables.names.size()"}, {"broken", "object.nope"}} {
			if err := compiler.Variable(v[0], v[1]); err != nil {
				t.Fatal(err)
			}
		}
		x, err := compiler.Compile(c.expression, typecheck.Bool)
		if c.expression == "object.spec.nope" {
			x, err = compiler.Compile(c.expression, typecheck.Any)
		}
		if err != nil {
			t.Errorf("%s: %v", c.expression, err)
			continue
		}
		got := "false"
		ok, err := evaluation(t, compiler, &run.Input{
			Object: pod,
			Source: source{
				request: object{"operation": "CREATE", "namespace": "ns"}, namespace: object{"metadata": object{"name": "ns"}},
				authorizer: &env.Authorizer{Access: access{}, Username: "jane", Namespace: "ns",
					Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}},
			},
		}).Bool(x)
		switch {
		case err != nil:
			got = err.Error()
		case ok:
			got = "true"
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.expression, got, c.want)
		}
	}
}

// access allows jane everything except deletions.
type access struct{}

func (access) Allowed(_ context.Context, r world.AccessRequest) (bool, string, error) {
	if r.Username != "jane" || r.Resource != "pods" || r.Namespace != "ns" {
		return false, "", errors.New("asked for something else")
	}
	if r.Verb == "delete" {
		return false, "nobody may delete", nil
	}
	return true, "", nil
}

func TestText(t *testing.T) {
	c := compiler.New(env.Declarations{Params: true})
	for expression, want := range map[string]string{
		"'no ' + object.metadata.name": "no web",
		"params.message":               "from params",
	} {
		x, err := c.Compile(expression, typecheck.String, typecheck.Any)
		if err != nil {
			t.Fatal(err)
		}
		got, ok, err := evaluation(t, c, &run.Input{Object: pod, Params: object{"message": "from params"}}).Text(x)
		if err != nil || !ok || got != want {
			t.Errorf("%s: %q, %v, %v", expression, got, ok, err)
		}
	}
	x, err := c.Compile("null", typecheck.String, typecheck.Null)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok, err := evaluation(t, c, &run.Input{}).Text(x); ok || err != nil {
		t.Errorf("null: %q, %v, %v", got, ok, err)
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ expression, want string }{
		{"object.x ==", "1:12: Syntax error: mismatched input '<EOF>'"},
		{"params.x == 1", "1:1: undeclared reference to 'params' (in container '')"},
		{"variables.nope == 1", "1:10: undefined field 'nope'"},
		{"request.object.metadata.name == 'x'", "1:8: undefined field 'object'"},
		{"variables.count == 'x'", "found no matching overload for '_==_'"},
		{"'text'", "must evaluate to bool but got string"},
	} {
		compiler := compiler.New(env.Declarations{})
		if err := compiler.Variable("count", "1 + 1"); err != nil {
			t.Fatal(err)
		}
		_, err := compiler.Compile(c.expression, typecheck.Bool)
		if err == nil {
			t.Errorf("%s: no error", c.expression)
			continue
		}
		text := err.Error()
		var compileError *typecheck.CompileError
		if errors.As(err, &compileError) {
			text = typecheck.Summary(compileError)
		}
		if !strings.Contains(text, c.want) {
			t.Errorf("%s: %s, want %s", c.expression, text, c.want)
		}
	}
	compiler := compiler.New(env.Declarations{})
	if err := compiler.Variable("broken", "nope.x"); err == nil {
		t.Error("a broken variable has no error")
	}
	if _, err := compiler.Compile("variables.broken == 1", typecheck.Bool); err != nil {
		t.Errorf("the mistake of a variable is reported again where it is used: %v", err)
	}
}

// An expression that would run long is stopped by its own cost limit, by the budget of the evaluation, or by its context.
func TestBudget(t *testing.T) {
	list := make([]any, 2000)
	for i := range list {
		list[i] = int64(i)
	}
	c := compiler.New(env.Declarations{})
	if err := c.Variable("long", "object.list.all(a, a >= 0)"); err != nil {
		t.Fatal(err)
	}
	bomb, err := c.Compile("object.list.all(a, object.list.all(b, object.list.all(c, a + b + c >= 0)))", typecheck.Bool)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := evaluation(t, c, &run.Input{Object: object{"list": list}}).Bool(bomb); !errors.Is(err, price.ErrBudget) {
		t.Errorf("the bomb: %v", err)
	}
	uses, err := c.Compile("variables.long", typecheck.Bool)
	if err != nil {
		t.Fatal(err)
	}
	e := c.Variables().Evaluate(t.Context(), &run.Input{Object: object{"list": list}}, 1000)
	for range 2 {
		if _, err := e.Bool(uses); !errors.Is(err, price.ErrBudget) {
			t.Errorf("the cost of variables does not count: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Variables().Evaluate(ctx, &run.Input{Object: object{"list": list}}, price.Budget).Bool(bomb); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context: %v", err)
	}
}

// A failed lookup is the error of the expression that makes the lookup, and of no other expression.
func TestFailures(t *testing.T) {
	c := compiler.New(env.Declarations{})
	asks, err := c.Compile("namespaceObject.metadata.name == 'x' || true", typecheck.Bool)
	if err != nil {
		t.Fatal(err)
	}
	other, err := c.Compile("object == null", typecheck.Bool)
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("the namespace is gone")
	e := evaluation(t, c, &run.Input{Source: source{failure: gone}})
	if _, err := e.Bool(asks); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	if ok, err := e.Bool(other); !ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
	rights, err := c.Compile("authorizer.requestResource.check('get').allowed()", typecheck.Bool)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Bool(rights); err == nil || !strings.Contains(err.Error(), "not known here") {
		t.Errorf("%v", err)
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		c := compiler.New(env.Declarations{})
		if err := c.Variable("names", "object.spec.containers.map(c, c.name)"); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Compile("variables.names.all(n, n != 'x')", typecheck.Bool); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEvaluate(b *testing.B) {
	c := compiler.New(env.Declarations{})
	if err := c.Variable("names", "object.spec.containers.map(c, c.name)"); err != nil {
		b.Fatal(err)
	}
	x, err := c.Compile("variables.names.all(n, n != 'x')", typecheck.Bool)
	if err != nil {
		b.Fatal(err)
	}
	in := &run.Input{Object: pod}
	b.ReportAllocs()
	for b.Loop() {
		if ok, err := c.Variables().Evaluate(b.Context(), in, price.Budget).Bool(x); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

func FuzzCompile(f *testing.F) {
	f.Add("object.spec.containers.all(c, has(c.ports))")
	f.Add("variables.x ? object : [1, 'a'")
	f.Fuzz(func(t *testing.T, text string) {
		c := compiler.New(env.Declarations{Params: true})
		_ = c.Variable("x", "true")
		x, err := c.Compile(text, typecheck.Any)
		if err != nil {
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, _, _ = c.Variables().Evaluate(ctx, &run.Input{Object: pod}, 100_000).Text(x)
	})
}

// Row S3 of docs/security/threat-model.md: no function of an expression reads the API, a service or a registry, so none can
// build a request of its own. The authorizer queries a right, and the names in the expression are only the content of the
// query.
func TestS3ExpressionsReadNothing(t *testing.T) {
	for _, expression := range []string{
		"resource.Get('v1', 'secrets/../../namespaces/other/secrets', 'd', 'x') != null",
		"resource.List('v1', 'secrets', 'other') != null",
		"resource.Post('v1', 'configmaps', 'd', {}) != null",
		"http.Get('http://169.254.169.254/') != null",
		"http.Post('http://example.com', {}) != null",
		"globalContext.Get('x', '') != null",
		"image.GetMetadata('ghcr.io/x') != null",
		"generator.apply('other', []) == null",
	} {
		if _, err := compiler.New(env.Declarations{Params: true}).Compile(expression, typecheck.Bool); err == nil || !strings.Contains(err.Error(), "undeclared reference") {
			t.Errorf("%s compiles, or is refused for another reason: %v", expression, err)
		}
	}
	asked := &noted{}
	compiler := compiler.New(env.Declarations{})
	x, err := compiler.Compile("authorizer.group('').resource('secrets/../../other').namespace('../other').name('..').check('get').allowed()", typecheck.Bool)
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := evaluation(t, compiler, &run.Input{Source: source{authorizer: &env.Authorizer{Access: asked, Username: "u"}}}).Bool(x)
	if err != nil || allowed {
		t.Errorf("%v, %v", allowed, err)
	}
	want := world.AccessRequest{Username: "u", Verb: "get", Version: "*", Resource: "secrets/../../other", Namespace: "../other", Name: ".."}
	if len(asked.requests) != 1 || !reflect.DeepEqual(asked.requests[0], want) {
		t.Errorf("the questions are %+v, want one: %+v", asked.requests, want)
	}
}

// noted records the queries that it receives, and allows nothing.
type noted struct{ requests []world.AccessRequest }

func (n *noted) Allowed(_ context.Context, r world.AccessRequest) (bool, string, error) {
	n.requests = append(n.requests, r)
	return false, "", nil
}
