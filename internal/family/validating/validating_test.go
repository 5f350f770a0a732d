package validating_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/ephor-dev/ephor/internal/engine"
	"github.com/ephor-dev/ephor/internal/family"
	"github.com/ephor-dev/ephor/internal/family/celpolicy"
	"github.com/ephor-dev/ephor/internal/family/validating"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
)

var update = flag.Bool("update", false, "rewrite the want sections of testdata")

// TestData runs testdata/*.txtar: policy.yaml is a policy, exceptions.yaml (optional) are exceptions that name it; requests.yaml is a
// list of requests {name, operation, resource, object, oldObject, user}. want has the diagnostics, the resources of the rules, and
// the results of each request.
func TestData(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no test data", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.TrimSpace(string(archive.Comment)) == "" {
				t.Error("the file does not say which behaviour it shows")
			}
			var program *policy.Program
			var got strings.Builder
			for i := range archive.Files {
				f := &archive.Files[i]
				switch f.Name {
				case "policy.yaml":
					got.Reset()
					program = compile(t, f.Data, &got)
				case "exceptions.yaml":
					for _, o := range decode[[]any](t, f.Data) {
						e, diags := celpolicy.CompileException(o.(map[string]any), family.Options{})
						for _, d := range diags {
							fmt.Fprintln(&got, d)
						}
						for k, r := range program.Rules {
							joined := *r
							joined.Exceptions = append(slices.Clip(r.Exceptions), e)
							program.Rules[k] = &joined
						}
					}
				case "requests.yaml":
					for _, r := range decode[[]any](t, f.Data) {
						evaluate(t, program, r.(map[string]any), &got)
					}
				case "want":
					if *update {
						f.Data = []byte(got.String())
					} else if got.String() != string(f.Data) {
						t.Errorf("got:\n%swant:\n%s", got.String(), f.Data)
					}
				}
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func compile(t *testing.T, text []byte, notes *strings.Builder) *policy.Program {
	t.Helper()
	p := validating.Family.Compile(family.Source{Object: decode[map[string]any](t, text)})
	for _, d := range p.Diags {
		fmt.Fprintln(notes, d)
	}
	for _, r := range p.Rules {
		var about []string
		for _, target := range r.Targets {
			about = append(about, target.Group+"/"+target.Version+"/"+target.Resource)
		}
		fmt.Fprintf(notes, "rule: %s %s: %s\n", r.Origin.Controllers, r.Action.Default, strings.Join(about, " "))
	}
	return p
}

func evaluate(t *testing.T, p *policy.Program, in map[string]any, out *strings.Builder) {
	t.Helper()
	text := func(key string) string { s, _ := in[key].(string); return s }
	r := &policy.Request{
		Operation:        policy.Operation(text("operation")),
		ResolveNamespace: func(context.Context) (map[string]string, error) { return nil, nil },
	}
	if r.Operation == "" {
		r.Operation = policy.Create
	}
	if user := text("user"); user != "" {
		r.User = &policy.User{Username: user}
	}
	for _, key := range []string{"oldObject", "object"} {
		o, ok := in[key].(map[string]any)
		if !ok {
			continue
		}
		apiVersion, _ := o["apiVersion"].(string)
		kind, _ := o["kind"].(string)
		r.GVK = schema.FromAPIVersionAndKind(apiVersion, kind)
		meta, _ := o["metadata"].(map[string]any)
		r.Name, _ = meta["name"].(string)
		r.Namespace, _ = meta["namespace"].(string)
		if key == "object" {
			r.Object = value.Of(o)
		} else {
			r.OldObject = value.Of(o)
		}
	}
	r.RequestGVK = r.GVK
	r.GVR = r.GVK.GroupVersion().WithResource(strings.ToLower(r.GVK.Kind) + "s")
	outcome := engine.Eval(t.Context(), engine.Input{
		Selections: []policy.Selection{{Program: p, Rules: p.Rules}}, Request: r, Stages: policy.StageValidate,
	})
	fmt.Fprintf(out, "%s:", text("name"))
	for i := range outcome.Results {
		result := &outcome.Results[i]
		fmt.Fprintf(out, " %s", result.Status)
		if result.Part != "" {
			fmt.Fprintf(out, " (%s)", result.Part)
		}
		fmt.Fprintf(out, " %q", result.Message)
		for _, k := range slices.Sorted(maps.Keys(result.Properties)) {
			fmt.Fprintf(out, " %s=%s", k, result.Properties[k])
		}
	}
	decision := engine.Decide(&outcome, engine.ValidateWording)
	fmt.Fprintf(out, " → allowed: %v\n", decision.Allowed)
}

func decode[T any](t *testing.T, text []byte) (out T) {
	t.Helper()
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	v, err := value.DecodeJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	out, ok := v.(T)
	if !ok {
		t.Fatalf("%T is not what the file should have", v)
	}
	return out
}
