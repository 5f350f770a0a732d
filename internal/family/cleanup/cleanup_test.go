package cleanup_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/family/cleanup"
	"ephor.invalid/ephor/internal/family/familytest"
	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// TestData runs testdata/*.txtar: policy.yaml, resources.yaml (a list), then want. want holds the diagnostics, the time at
// which the policy is due after the first second of 2026, and the result and the work for each resource.
func TestData(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, in golden.Inputs) string {
		return run(golden.Decode[map[string]any](t, in.Text("policy.yaml")), golden.Objects(t, in.Text("resources.yaml")))
	})
}

func run(object map[string]any, resources []map[string]any) string {
	var b strings.Builder
	p, diags := cleanup.Decode(object)
	diags.Add(cleanup.Check(p)...)
	program := cleanup.Compile(p)
	for _, d := range append(diags, program.Diags...) {
		fmt.Fprintln(&b, "diagnostic:", d)
	}
	if program.Schedule != nil {
		fmt.Fprintln(&b, "due:", program.Schedule.Next(time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC)).Format(time.RFC3339))
	}
	rule := program.Rules[0]
	for _, o := range resources {
		req := requestFor(o)
		ok, err := rule.Match(context.Background(), req)
		fmt.Fprintf(&b, "%s/%s: ", req.Namespace, req.Name)
		switch {
		case err != nil:
			fmt.Fprintln(&b, "match error:", err)
		case !ok:
			fmt.Fprintln(&b, "not matched")
		default:
			y := rule.Eval(call(program, req))
			fmt.Fprintf(&b, "%s: %s", y.Status, y.Message)
			for _, w := range y.Work {
				fmt.Fprintf(&b, "; %s %s", w.Kind, w.Propagation)
			}
			fmt.Fprintln(&b)
		}
	}
	return b.String()
}

// requestFor returns the request of a scan that finds the object.
func requestFor(o map[string]any) *policy.Request {
	r := familytest.Request(o)
	r.Origin = policy.FromScan
	return r
}

func call(p *policy.Program, req *policy.Request) *policy.Call {
	env := &evalenv.Env{Meter: budget.New(context.Background(), budget.DefaultSteps, budget.DefaultBytes)}
	return &policy.Call{Env: env, Request: req, Program: p, Rule: p.Rules[0]}
}

// Row S6 of docs/security/threat-model.md: the context of a namespaced cleanup policy is confined like that of any other policy. A Program
// has only the reach of its policy.
func TestS6Confined(t *testing.T) {
	for _, path := range []string{
		"/api/v1/namespaces/other/secrets", "/api/v1/namespaces/own/../other/secrets", "/api/v1/secrets", "/api/v1/namespaces/%6fther/secrets",
	} {
		var object map[string]any
		text := `{apiVersion: kyverno.io/v2, kind: CleanupPolicy, metadata: {name: p, namespace: own}, spec: {schedule: "* * * * *",
			match: {any: [{resources: {kinds: [Pod]}}]}, context: [{name: path, variable: {value: "` + path + `"}}, {name: got, apiCall: {urlPath: "{{ path }}"}}],
			conditions: {all: [{key: "{{ got }}", operator: Equals, value: {}}]}}}`
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		p, _ := cleanup.Decode(object)
		program := cleanup.Compile(p)
		if r := program.Reach(); r.IsCluster() || r.Namespace() != "own" {
			t.Fatalf("reach %+v", r)
		}
		c := call(program, requestFor(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "x", "namespace": "own"}}))
		asked := false
		c.World = world.World{API: world.API(func(context.Context, world.APIRequest) (any, error) {
			asked = true
			return map[string]any{}, nil
		})}
		if y := program.Rules[0].Eval(c); y.Status != policy.StatusError || len(y.Work) > 0 || asked {
			t.Errorf("%s: %v %s, asked %v", path, y.Status, y.Message, asked)
		}
	}
}
