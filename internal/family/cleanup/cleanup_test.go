package cleanup_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/ephor-dev/ephor/internal/budget"
	"github.com/ephor-dev/ephor/internal/evalenv"
	"github.com/ephor-dev/ephor/internal/family/cleanup"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
	"github.com/ephor-dev/ephor/internal/world"
)

var update = flag.Bool("update", false, "rewrite the want sections of testdata")

// TestData runs testdata/*.txtar: policy.yaml, resources.yaml (a list), then want: the diagnostics, when the policy is due
// after the first second of 2026, and for each resource the result and the work.
func TestData(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no test data", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if len(strings.TrimSpace(string(archive.Comment))) == 0 {
				t.Error("the file does not say which behaviour it shows")
			}
			var object map[string]any
			var resources []map[string]any
			for _, s := range []struct {
				text []byte
				to   any
			}{{archive.Files[0].Data, &object}, {archive.Files[1].Data, &resources}} {
				if err := yaml.Unmarshal(s.text, s.to); err != nil {
					t.Fatal(err)
				}
			}
			got := run(t, object, resources)
			if *update {
				archive.Files[2].Data = []byte(got)
				if err := os.WriteFile(f, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := string(archive.Files[2].Data); got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

func run(t *testing.T, object map[string]any, resources []map[string]any) string {
	t.Helper()
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

func requestFor(o map[string]any) *policy.Request {
	metadata, _ := o["metadata"].(map[string]any)
	apiVersion, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	req := &policy.Request{Origin: policy.FromScan, Operation: policy.Create, Object: value.Of(o)}
	req.GVK = schema.FromAPIVersionAndKind(apiVersion, kind)
	req.RequestGVK = req.GVK
	req.Name, _ = metadata["name"].(string)
	req.Namespace, _ = metadata["namespace"].(string)
	return req
}

func call(p *policy.Program, req *policy.Request) *policy.Call {
	env := &evalenv.Env{Meter: budget.New(context.Background(), budget.DefaultSteps, budget.DefaultBytes)}
	return &policy.Call{Env: env, Request: req, Program: p, Rule: p.Rules[0]}
}

// Row S6 of docs/security/threat-model.md: the context of a namespaced cleanup policy is as confined as that of any other: a
// Program has the reach of its policy, and nothing gives it another.
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
		c.World = world.World{API: world.APIFunc(func(context.Context, world.APIRequest) (any, error) {
			asked = true
			return map[string]any{}, nil
		})}
		if y := program.Rules[0].Eval(c); y.Status != policy.StatusError || len(y.Work) > 0 || asked {
			t.Errorf("%s: %v %s, asked %v", path, y.Status, y.Message, asked)
		}
	}
}
