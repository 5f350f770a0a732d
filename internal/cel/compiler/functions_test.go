package compiler

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/run"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/cel/values"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// testWorld returns a World with one object of each kind.
func testWorld() world.World {
	settings := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings", "namespace": "default"}}
	return world.World{
		Clock: testClock{}, Rand: testRand{}, Kinds: world.Kinds{Resource: testKinds{}.Resource},
		Resources: world.API(func(_ context.Context, r world.APIRequest) (any, error) {
			switch path := r.Path.String(); {
			case r.Method == world.POST:
				return map[string]any{"kind": "SubjectAccessReview", "status": map[string]any{"allowed": true}}, nil
			case path == "/api/v1/namespaces/default/configmaps/settings":
				return settings, nil
			case r.Path.Resource == "configmaps" && r.Path.Name == "":
				// As in responses of API servers, only the list states the kind of its items.
				return map[string]any{"apiVersion": "v1", "kind": "ConfigMapList", "items": []any{map[string]any{"metadata": settings["metadata"]}}}, nil
			case r.Path.Resource == "secrets":
				return nil, errors.New("permission denied: secrets")
			}
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: r.Path.Resource}, r.Path.Name)
		}),
		HTTP: world.HTTP(func(_ context.Context, r world.ServiceRequest) (map[string]any, error) {
			if strings.Contains(r.URL, "blocked") || r.VariableHost {
				return nil, errors.New("it is blocked")
			}
			if strings.Contains(r.URL, "jwks") {
				return map[string]any{"keys": []any{}, "statusCode": int64(200)}, nil
			}
			return map[string]any{"method": r.Method, "sent": r.Body, "headers": int64(len(r.Headers)), "statusCode": int64(200)}, nil
		}),
		Globals: world.Globals(func(_ context.Context, name world.GlobalRequest) (any, error) {
			switch name {
			case "deployments":
				return []any{map[string]any{"a": "b"}}, nil
			case "deployments.names":
				return []any{"b"}, nil
			case "deployments.other":
				return nil, &world.NoProjectionError{Entry: "deployments", Projection: "other"}
			case "broken":
				return nil, errors.New("it has no data")
			}
			return nil, &world.NoGlobalError{Message: "none"}
		}),
		Images: world.Images{Image: func(_ context.Context, r world.ImageRequest) (map[string]any, error) {
			if r.Reference != "ghcr.io/team/app:1" {
				return nil, errors.New("no such image")
			}
			return map[string]any{
				"image": r.Reference, "resolvedImage": "ghcr.io/team/app@sha256:ab", "registry": "ghcr.io", "repository": "team/app", "identifier": "1",
				"manifestList": nil, "manifest": map[string]any{"schemaVersion": int64(2)}, "configData": map[string]any{"config": map[string]any{"User": "1000"}},
			}, nil
		}},
	}
}

type testClock struct{}

func (testClock) Now() time.Time { return time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC) }

type testRand struct{}

func (testRand) Intn(n int) int { return n / 2 }

type testKinds struct{}

func (testKinds) Resource(_ context.Context, k world.Kind) (string, error) {
	if k.Kind != "ConfigMap" {
		return "", errors.New("no matches for kind " + k.Kind)
	}
	return "configmaps", nil
}

// testVerifier knows one image, which the team signed.
type testVerifier struct{}

func (testVerifier) Signed(_ context.Context, image string, attestors []string) (n int, err error) {
	if image != "ghcr.io/team/app:1" {
		return 0, errors.New("connection refused")
	}
	for _, a := range attestors {
		if a == "team" {
			n++
		}
	}
	return n, nil
}

func (v testVerifier) Attested(ctx context.Context, image, attestation string, attestors []string) (int, error) {
	if attestation != "sbom" {
		return 0, &env.MistakeError{Reason: "attestation not found in policy: " + attestation}
	}
	return v.Signed(ctx, image, attestors)
}

func (testVerifier) Payload(context.Context, string, string) (any, error) {
	return map[string]any{"bomFormat": "CycloneDX"}, nil
}

func (v testVerifier) Payloads(ctx context.Context, image, _, attestor string) ([]any, error) {
	if n, err := v.Signed(ctx, image, []string{attestor}); err != nil || n == 0 {
		return []any{}, err
	}
	return []any{map[string]any{"predicate": map[string]any{"critical": 0.0}}}, nil
}

// testRequests are the check requests for the expressions of policies.
var testRequests = map[env.Kind]map[string]any{
	env.HTTPChecks: {"attributes": map[string]any{
		"method": "GET", "path": "/a", "contentLength": 3.0, "header": map[string]any{"Accept": []any{"text/plain"}, "X": []any{"1", "2"}, "x": []any{"3"}}, "query": map[string]any{"q": []any{"v"}},
	}},
	env.EnvoyChecks: {"attributes": map[string]any{
		"source": map[string]any{"address": map[string]any{"socketAddress": map[string]any{"address": "10.0.0.1", "port_value": 80.0, "protocol": "UDP"}}},
		"request": map[string]any{
			"time": "2026-11-22T10:00:00Z", "http": map[string]any{"method": "GET", "path": "/a", "headers": map[string]any{"accept": "text/plain"}, "rawBody": "YQ=="},
		},
		"metadata_context": map[string]any{"filter_metadata": map[string]any{"x": map[string]any{"y": 1.0}}},
	}},
}

const testCertificate = "../../certificate/testdata/rsa.pem"

// evaluated returns the value of an expression as JSON, or its error.
func evaluated(t testing.TB, d env.Declarations, expression string, budget int64) string {
	c := New(d)
	if d.Kind == env.Validating || d.Kind == env.Generating {
		if err := c.Variable("ca", value.JSON(certificateText(t))); err != nil {
			t.Fatal(err)
		}
	}
	x, err := c.Compile(expression, typecheck.Any)
	if err != nil {
		return "compile: " + typecheck.Summary(err)
	}
	in := &run.Input{
		Object:    map[string]any{"data": map[string]any{"tls.crt": certificateText(t)}, "n": int64(7), "f": 1.5, "s": "text", "list": []any{"a"}, "url": "https://service.example/x"},
		Attestors: map[string]any{"team": "team", "stranger": "stranger"}, Attestations: map[string]any{"sbom": "sbom"}, Verifier: func(run.TextOf) env.Verifier { return testVerifier{} },
		Access: env.Access{World: new(testWorld()), Namespace: map[bool]string{true: "default"}[d.Namespaced], Generate: func(namespace string, objects []map[string]any) error {
			if namespace == "forbidden" {
				return errors.New("permission denied: " + namespace)
			}
			return nil
		}},
	}
	if d.Kind == env.HTTPChecks || d.Kind == env.EnvoyChecks {
		request, err := env.CheckRequest(d.Kind, testRequests[d.Kind])
		if err != nil {
			t.Fatal(err)
		}
		in.Object = request
	}
	v, err := c.Variables().Evaluate(context.Background(), in, budget).Value(x)
	if err != nil {
		if e := (*env.EvaluationError)(nil); errors.As(err, &e) {
			err = e.Err
		}
		return "error: " + err.Error()
	}
	out, err := values.Decode(v, values.MaxNesting)
	if err != nil {
		return "error: " + err.Error()
	}
	return value.JSON(out)
}

func certificateText(t testing.TB) string {
	text, err := os.ReadFile(testCertificate)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every function has documentation, and its example has the documented result, in every spelling.
func TestExamples(t *testing.T) {
	for _, l := range env.Libraries {
		for _, f := range l.Functions {
			if f.Doc == "" || f.Example == "" || f.Result == "" || len(f.Overloads) == 0 {
				t.Errorf("%s: incomplete documentation", f.Names[0])
			}
			kind := env.Validating
			for !l.In(kind) {
				kind++
			}
			for _, name := range f.Names {
				expression := f.Example
				if f.Member {
					expression = strings.Replace(expression, "."+f.Names[0]+"(", "."+name+"(", 1)
				} else if expression = strings.Replace(expression, f.Names[0]+"(", name+"(", 1); !strings.Contains(expression, name+"(") {
					t.Errorf("%s: the example does not use it", name)
				}
				if got := evaluated(t, env.Declarations{Kind: kind}, expression, price.Budget); got != f.Result {
					t.Errorf("%s\n got %s\nwant %s", expression, got, f.Result)
				}
			}
		}
	}
}

// testdata/functions.txt contains calls with their values and errors, including the limits of each function.
func TestCalls(t *testing.T) {
	text, err := os.ReadFile("testdata/functions.txt")
	if err != nil {
		t.Fatal(err)
	}
	declared := env.Declarations{Kind: env.Validating}
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case strings.HasPrefix(line, "@"):
			declared = map[string]env.Declarations{
				"@cluster": {Kind: env.Validating}, "@namespaced": {Kind: env.Validating, Namespaced: true}, "@generating": {Kind: env.Generating},
				"@namespaced generating": {Kind: env.Generating, Namespaced: true}, "@deleting": {Kind: env.Deleting}, "@images": {Kind: env.ImageValidating},
				"@references": {Kind: env.ImageReferences}, "@mutating": {Kind: env.Mutating}, "@http": {Kind: env.HTTPChecks}, "@envoy": {Kind: env.EnvoyChecks},
			}[line]
			continue
		}
		expression, want, _ := strings.Cut(line, " => ")
		if got := evaluated(t, declared, expression, price.Budget); got != want && !(strings.HasSuffix(want, "…") && strings.HasPrefix(got, strings.TrimSuffix(want, "…"))) {
			t.Errorf("functions.txt:%d: %s\n got %s\nwant %s", i+1, expression, got, want)
		}
	}
}

// No library call panics or takes long, whatever its arguments.
func FuzzLibraries(f *testing.F) {
	var calls []*env.Function
	for _, l := range env.Libraries {
		for i := range l.Functions {
			calls = append(calls, &l.Functions[i])
		}
	}
	for i := range calls {
		f.Add(i, "a", "b", int64(1), 1.5, uint8(i))
	}
	f.Fuzz(func(t *testing.T, which int, a, b string, n int64, x float64, mix uint8) {
		if which < 0 || which >= len(calls) {
			return
		}
		values := []string{value.JSON(a), value.JSON(b), value.JSON(n), "dyn(" + value.JSON(a) + ")", "[" + value.JSON(a) + "]", "{" + value.JSON(a) + ": dyn(" + value.JSON(b) + ")}", "b" + value.JSON(a), "timestamp(0)", "duration('1s')", "object"}
		call := calls[which]
		for _, o := range call.Overloads {
			args := make([]string, len(o.Args))
			for i := range args {
				args[i] = values[(int(mix)+i*3)%len(values)]
			}
			expression := call.Names[0] + "(" + strings.Join(args, ", ") + ")"
			if call.Member && len(args) > 0 {
				expression = "dyn(" + args[0] + ")." + call.Names[0] + "(" + strings.Join(args[1:], ", ") + ")"
			}
			start := time.Now()
			if got := evaluated(t, env.Declarations{Kind: env.Validating}, expression, price.Budget); strings.Contains(got, "internal error: runtime") {
				t.Errorf("%s: %s", expression, got)
			}
			if took := time.Since(start); took > time.Minute {
				t.Errorf("%s took %v", expression, took)
			}
		}
	})
}
