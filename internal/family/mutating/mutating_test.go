package mutating_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/engine"
	"github.com/ephor-dev/ephor/internal/family"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var update = flag.Bool("update", false, "rewrite the want sections of testdata")

// TestData runs testdata/*.txtar: policies.yaml, resources.yaml (both lists), then want: the diagnostics, and for each resource the results
// of the policies in their order, and what they made of it.
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
			var policies, resources []map[string]any
			for i, to := range []*[]map[string]any{&policies, &resources} {
				if err := yaml.Unmarshal(archive.Files[i].Data, to); err != nil {
					t.Fatal(err)
				}
			}
			got := run(t, policies, resources)
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

func run(t *testing.T, policies, resources []map[string]any) string {
	t.Helper()
	var b strings.Builder
	var selections, existing []policy.Selection
	for _, p := range policies {
		program, diags := compile.One(compile.Object{Value: p})
		for _, d := range diags {
			fmt.Fprintln(&b, "diagnostic:", d)
		}
		if diags.HasErrors() {
			continue
		}
		selections = append(selections, policy.Selection{Program: program, Rules: program.Rules})
		scanned, _ := compile.With(compile.Object{Value: p}, nil, family.Options{Existing: true})
		existing = append(existing, policy.Selection{Program: scanned, Rules: scanned.Rules})
	}
	for _, o := range resources {
		req := requestFor(o)
		out := engine.Eval(t.Context(), engine.Input{Selections: selections, Request: req, Stages: policy.StageMutate})
		fmt.Fprintf(&b, "%s %s/%s\n", req.GVK.Kind, req.Namespace, req.Name)
		for _, r := range out.Results {
			fmt.Fprintf(&b, "  %s %s: %s\n", r.Program.Key(), r.Status, strings.TrimSpace(r.Part+" "+r.Message))
			if len(r.Properties) > 0 {
				fmt.Fprintf(&b, "    %v\n", r.Properties)
			}
		}
		if out.Object != req.Object {
			made, err := out.Object.Map()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "  = %s\n", value.JSON(made))
		}
		for _, r := range engine.Eval(t.Context(), engine.Input{Selections: existing, Request: req, Stages: policy.StageValidate}).Results {
			fmt.Fprintf(&b, "  scan: %s %s: %s\n", r.Program.Key(), r.Status, r.Message)
		}
	}
	return b.String()
}

var resourceOf = map[string]string{"Pod": "pods", "Deployment": "deployments", "CronJob": "cronjobs", "ConfigMap": "configmaps", "Widget": "widgets"}

func requestFor(o map[string]any) *policy.Request {
	metadata, _ := o["metadata"].(map[string]any)
	apiVersion, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	req := &policy.Request{Operation: policy.Create, Object: value.Of(o), GVK: schema.FromAPIVersionAndKind(apiVersion, kind)}
	req.RequestGVK, req.GVR = req.GVK, req.GVK.GroupVersion().WithResource(resourceOf[kind])
	req.Name, _ = metadata["name"].(string)
	req.Namespace, _ = metadata["namespace"].(string)
	return req
}
