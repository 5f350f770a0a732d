package examples_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world/fixed"
)

var update = flag.Bool("update", false, "rewrite testdata/verdicts.txt")

// TestVerdicts evaluates all policies on every manifest, with numbers as the cluster and as the command line decodes them, and compares the
// failed rules with testdata/verdicts.txt. In addition, good manifests must fail no rule, and bad ones must fail the policy of their folder.
func TestVerdicts(t *testing.T) {
	const golden = "testdata/verdicts.txt"
	snapshot := compileAll(t)
	files, err := filepath.Glob(filepath.Join(manifestFolder, "*", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests in %s: %v", manifestFolder, err)
	}
	var table strings.Builder
	for _, file := range files {
		folder, verdict := filepath.Base(filepath.Dir(file)), filepath.Base(file)
		failed := evaluate(t, snapshot, file, value.DecodeJSON)
		if cli := evaluate(t, snapshot, file, value.DecodeJSONFloat); strings.Join(failed, " ") != strings.Join(cli, " ") {
			t.Errorf("%s: the cluster's numbers fail %v, the command line's %v", file, failed, cli)
		}
		switch good := strings.HasPrefix(verdict, "good-"); {
		case good && len(failed) > 0:
			t.Errorf("%s fails %v", file, failed)
		case !good && !strings.Contains(strings.Join(failed, " "), folder+"/"):
			t.Errorf("%s does not fail %s but %v", file, folder, failed)
		}
		if len(failed) == 0 {
			failed = []string{"passes"}
		}
		fmt.Fprintf(&table, "%s: %s\n", folder+"/"+verdict, strings.Join(failed, " "))
	}
	if *update {
		if err := os.WriteFile(golden, []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if table.String() != string(want) {
		t.Errorf("the failing rules are not those of %s (run with -update and read the difference):\n%s", golden, table.String())
	}
}

// TestPortRange: a port inside of the range passes disallow-host-ports-range, also next to ports that are not host ports.
func TestPortRange(t *testing.T) {
	snapshot := compileAll(t)
	for ports, want := range map[string]bool{
		"[{containerPort: 80, hostPort: 5000}]":                                    true,
		"[{containerPort: 80, hostPort: 6000}, {containerPort: 81}]":               true,
		"[{containerPort: 80, hostPort: 0}, {containerPort: 81, hostPort: 5500}]":  true,
		"[{containerPort: 80, hostPort: 4999}]":                                    false,
		"[{containerPort: 80, hostPort: 5500}, {containerPort: 81, hostPort: 80}]": false,
	} {
		manifest := "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default}, spec: {containers: [{name: a, image: a, ports: " + ports + "}]}}"
		failed := strings.Join(evaluateObject(t, snapshot, []byte(manifest), value.DecodeJSON), " ")
		if got := !strings.Contains(failed, "disallow-host-ports-range/"); got != want {
			t.Errorf("%s: passes is %v", ports, got)
		}
	}
}

// TestTwins: the policies of both folders have the same names and fail on the same manifests, in both families.
func TestTwins(t *testing.T) {
	if classic, cel := policyNames(t, policyFolder), policyNames(t, celFolder); !slices.Equal(classic, cel) {
		t.Fatalf("%s has the policies %v, %s %v", policyFolder, classic, celFolder, cel)
	}
	classic, cel := compileAll(t), compileFolder(t, celFolder)
	files, err := filepath.Glob(filepath.Join(manifestFolder, "*", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests in %s: %v", manifestFolder, err)
	}
	for _, file := range files {
		want := policiesOf(evaluate(t, classic, file, value.DecodeJSON))
		if got := policiesOf(evaluate(t, cel, file, value.DecodeJSON)); !slices.Equal(got, want) {
			t.Errorf("%s fails %v in CEL, and %v as classic policies", file, got, want)
		}
	}
}

// policiesOf returns the names of the policies of rules, each once.
func policiesOf(rules []string) (names []string) {
	for _, r := range rules {
		name, _, _ := strings.Cut(r, "/")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func compileAll(t *testing.T) *catalog.Snapshot { t.Helper(); return compileFolder(t, policyFolder) }

func compileFolder(t *testing.T, folder string) *catalog.Snapshot {
	t.Helper()
	var objects []compile.Object
	for _, name := range policyNames(t, folder) {
		content, err := os.ReadFile(filepath.Join(folder, name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, compile.Object{Value: decode(t, content, value.DecodeJSON)})
	}
	programs, diags := compile.Compile(objects)
	for _, d := range diags {
		t.Errorf("the policies do not compile cleanly: %v", d)
	}
	return catalog.NewStatic(programs)
}

func evaluate(t *testing.T, snapshot *catalog.Snapshot, file string, decoder func([]byte) (any, error)) []string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return evaluateObject(t, snapshot, content, decoder)
}

// evaluateObject returns the rules that fail, as policy/rule, and requires that every other result is a pass or a skip.
func evaluateObject(t *testing.T, snapshot *catalog.Snapshot, manifest []byte, decoder func([]byte) (any, error)) []string {
	t.Helper()
	object := decode(t, manifest, decoder)
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	metadata["namespace"] = "default"
	request := &policy.Request{Review: policy.Review{
		Operation: policy.Create, GVK: gvk, RequestGVK: gvk, GVR: gvk.GroupVersion().WithResource(strings.ToLower(kind) + "s"), Namespace: "default", Name: name,
		Object: value.Of(object), User: &policy.User{Username: "somebody"},
	}}
	outcome := engine.Eval(context.Background(), engine.Input{
		Selections: snapshot.For(request, catalog.Route{Stages: policy.StageValidate}),
		Request:    request, Stages: policy.StageValidate, Root: fixed.New(fixed.Values{}),
	})
	if n := len(outcome.Results); n != 20 && n != 18 { // of 20 classic rules, or of 18 policies in CEL
		t.Errorf("%s %s: %d results", kind, name, n)
	}
	failed := []string{}
	for _, r := range outcome.Results {
		switch r.Status {
		case policy.StatusFail:
			failed = append(failed, r.Program.Name+"/"+r.Rule.Name)
		case policy.StatusPass, policy.StatusSkip:
		default:
			t.Errorf("%s %s: %s/%s: %s %s", kind, name, r.Program.Name, r.Rule.Name, r.Status, r.Message)
		}
	}
	if allowed := engine.Decide(&outcome, engine.ValidateWording).Allowed; allowed != (len(failed) == 0) {
		t.Errorf("%s %s: allowed is %v with the failures %v", kind, name, allowed, failed)
	}
	return failed
}

func decode(t *testing.T, content []byte, decoder func([]byte) (any, error)) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON(content)
	if err != nil {
		t.Fatal(err)
	}
	v, err := decoder(raw)
	if err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any)
}
