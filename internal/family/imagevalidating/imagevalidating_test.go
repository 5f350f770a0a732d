package imagevalidating_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/ephor-dev/ephor/internal/engine"
	"github.com/ephor-dev/ephor/internal/family"
	"github.com/ephor-dev/ephor/internal/family/celpolicy"
	"github.com/ephor-dev/ephor/internal/family/imagevalidating"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
	"github.com/ephor-dev/ephor/internal/world"
)

var update = flag.Bool("update", false, "rewrite the want sections of testdata")

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// notary answers about signatures: an attestor whose key or certificate is the word "outage" cannot be asked; others signed the images whose
// text has the word of their key.
type notary struct{}

func (notary) Verify(_ context.Context, r world.SignatureRequest) (string, error) {
	word := ""
	switch a := r.Attestor; {
	case a.Key != nil:
		word = a.Key.PublicKey
	case a.Certificate != nil:
		word = a.Certificate.Chain
	case a.Keyless != nil:
		word = a.Keyless.Subject
	}
	switch {
	case word == "outage":
		return "", errors.New("dial tcp: connection refused")
	case !strings.Contains(r.Image, word):
		return "", &world.UnverifiedError{Reason: "no matching signatures"}
	}
	return digest, nil
}

func (n notary) Statements(ctx context.Context, r world.SignatureRequest) (string, []world.Statement, error) {
	if r.Attestor != nil {
		if _, err := n.Verify(ctx, r); err != nil {
			return "", nil, err
		}
	}
	return digest, []world.Statement{{Type: r.Type, Document: map[string]any{"type": r.Type, "image": r.Image}}}, nil
}

// registries know the images whose text does not have the word missing.
func registries(_ context.Context, r world.ImageRequest) (map[string]any, error) {
	if strings.Contains(r.Reference, "missing") {
		return nil, errors.New("MANIFEST_UNKNOWN")
	}
	return map[string]any{"resolvedImage": r.Reference + "@" + digest, "configData": map[string]any{"architecture": "amd64"}}, nil
}

// TestData runs testdata/*.txtar. policy….yaml are policies, exceptions.yaml (optional) are exceptions from them; requests.yaml is a list of
// requests {name, operation, object, oldObject}, which are first mutated, then validated by all policies, in a world that notary and
// registries describe, or with `verifies: false` in one that verifies nothing. want has the diagnostics, the resources of the rules and the
// results.
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
			var programs []*policy.Program
			var got strings.Builder
			for i := range archive.Files {
				f := &archive.Files[i]
				switch {
				case strings.HasPrefix(f.Name, "policy"):
					programs = append(programs, compile(t, f.Data, &got))
				case f.Name == "exceptions.yaml":
					except(t, programs, f.Data, &got)
				case f.Name == "requests.yaml":
					for _, r := range decode[[]any](t, f.Data) {
						evaluate(t, programs, r.(map[string]any), &got)
					}
				case f.Name == "want":
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
	object := decode[map[string]any](t, text)
	p := imagevalidating.Family.Compile(family.Source{Object: object, Options: family.Options{CommandLine: object["kind"] != nil && strings.Contains(string(text), "mode: JSON")}})
	for _, d := range p.Diags {
		fmt.Fprintln(notes, d)
	}
	for _, r := range p.Rules {
		var about []string
		for _, target := range r.Targets {
			about = append(about, target.Group+"/"+target.Version+"/"+target.Resource)
		}
		fmt.Fprintf(notes, "%s %s %s: %s\n", r.Kind, r.Origin.Controllers, r.Action.Default, strings.Join(about, " "))
	}
	for i := range p.Webhooks {
		fmt.Fprintf(notes, "webhook: %s %s %s\n", p.Webhooks[i].Name, p.Webhooks[i].Path, p.Webhooks[i].Own)
	}
	return p
}

func except(t *testing.T, programs []*policy.Program, text []byte, notes *strings.Builder) {
	t.Helper()
	for _, o := range decode[[]any](t, text) {
		e, diags := celpolicy.CompileException(o.(map[string]any), family.Options{})
		for _, d := range diags {
			fmt.Fprintln(notes, d)
		}
		for _, p := range programs {
			for k, r := range p.Rules {
				joined := *r
				joined.Exceptions = append(slices.Clip(r.Exceptions), e)
				p.Rules[k] = &joined
			}
		}
	}
}

func evaluate(t *testing.T, programs []*policy.Program, in map[string]any, out *strings.Builder) {
	t.Helper()
	text := func(key string) string { s, _ := in[key].(string); return s }
	r := &policy.Request{
		Operation:        policy.Operation(text("operation")),
		ResolveNamespace: func(context.Context) (map[string]string, error) { return nil, nil },
	}
	if r.Operation == "" {
		r.Operation = policy.Create
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
	w := world.World{Images: world.ImagesFunc(registries), Signatures: notary{}}
	if in["verifies"] == false {
		w.Signatures = nil
	}
	var selections []policy.Selection
	for _, p := range programs {
		selections = append(selections, policy.Selection{Program: p, Rules: p.Rules})
	}
	input := engine.Input{Selections: selections, Request: r, Root: world.RootFunc(func(world.Reach) world.World { return w })}
	fmt.Fprintf(out, "%s:", text("name"))
	if r.Object != nil {
		input.Stages = policy.StageMutate
		mutated := engine.Eval(t.Context(), input)
		results(out, &mutated)
		before, _ := r.Object.Value()
		after, _ := mutated.Object.Value()
		if value.JSON(before) != value.JSON(after) {
			fmt.Fprintf(out, " images: %s;", strings.Join(found(after), " "))
		}
		input.Request = r.WithObject(mutated.Object)
		if decision := engine.Decide(&mutated, celpolicy.Validating); !decision.Allowed {
			fmt.Fprintf(out, " → denied: %s\n", decision.Message)
			return
		}
	}
	input.Stages = policy.StageValidate
	outcome := engine.Eval(t.Context(), input)
	results(out, &outcome)
	if decision := engine.Decide(&outcome, celpolicy.Validating); decision.Allowed {
		fmt.Fprintln(out, " → allowed")
	} else {
		fmt.Fprintf(out, " → denied: %s\n", decision.Message)
	}
}

func results(out *strings.Builder, outcome *policy.Outcome) {
	for i := range outcome.Results {
		result := &outcome.Results[i]
		fmt.Fprintf(out, " %s", result.Status)
		if result.Part != "" {
			fmt.Fprintf(out, " (%s)", result.Part)
		}
		fmt.Fprintf(out, " %.200q", result.Message)
		for _, k := range slices.Sorted(maps.Keys(result.Properties)) {
			fmt.Fprintf(out, " %s=%s", k, result.Properties[k])
		}
	}
}

// found are all texts of fields that are called image.
func found(v any) (out []string) {
	switch x := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			if text, ok := x[k].(string); ok && k == "image" {
				out = append(out, text)
			}
			out = append(out, found(x[k])...)
		}
	case []any:
		for _, e := range x {
			out = append(out, found(e)...)
		}
	}
	return out
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

// The status has the generated policies, and no message of before.
func TestStatus(t *testing.T) {
	for _, expression := range []string{"true", "verifyImageSignatures(images.containers[0], []) == 0"} {
		object := decode[map[string]any](t, []byte(`
apiVersion: policies.kyverno.io/v1
kind: ImageValidatingPolicy
metadata: {name: p}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  matchConditions: [{name: a, expression: "has(object.metadata.labels)"}]
  attestors: []
  validations: [{expression: "`+expression+`"}]
status: {conditionStatus: {message: old}}
`))
		program := imagevalidating.Family.Compile(family.Source{Object: object})
		tree, err := imagevalidating.Family.Status.Make(object, family.State{Program: program, Now: time.Unix(1000, 0)})
		if err != nil {
			t.Fatal(err)
		}
		status := tree["conditionStatus"].(map[string]any)
		configs := value.JSON(tree["autogen"])
		if status["message"] != nil || status["ready"] != true {
			t.Errorf("%s: %v", expression, status)
		}
		if !strings.Contains(configs, `"has(object.spec.template.metadata.labels)"`) || !strings.Contains(configs, `"attestors":[]`) || !strings.Contains(configs, "cronjobs") {
			t.Errorf("generated: %s", configs)
		}
	}
}

// Globs are compared with references as they are written.
func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		glob, image string
		want        bool
	}{
		{"ghcr.io/*", "ghcr.io/a/b:1", true}, {"ghcr.io/**", "ghcr.io/a", true}, {"*", "nginx", true}, {"ghcr.io/*", "xghcr.io/a", false},
		{"ghcr?io/a", "ghcr.io/a", true}, {"ghcr.io/a", "ghcrxio/a", false}, {"a[b-d]", "ac", true}, {"a[!b-d]", "ac", false}, {"a[^b-d]", "ae", true},
		{"{a,b*}:1", "bcd:1", true}, {"{a,b}:1", "c:1", false}, {"a,b", "a,b", true}, {`a\*`, "ab", false}, {`a\*`, "a*", true}, {"a}", "a}", true},
		{"ghcr.io/*", "GHCR.io/a", true}, {"ghcr.io/a", "ghcr.io/A", false}, {"é*", "éa", true}, {"a[.]b", "axb", false},
	} {
		object := decode[map[string]any](t, []byte(`
apiVersion: policies.kyverno.io/v1
kind: ImageValidatingPolicy
metadata: {name: p}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  autogen: {podControllers: {controllers: []}}
  validationConfigurations: {mutateDigest: false, verifyDigest: false, required: false}
  matchImageReferences: [{glob: `+value.JSON(c.glob)+`}]
  attestors: []
  validations: [{expression: "images.containers.size() == 1"}]
`))
		p := imagevalidating.Family.Compile(family.Source{Object: object})
		r := &policy.Request{Operation: policy.Create, GVK: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}
		r.RequestGVK = r.GVK
		r.Object = value.Of(map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"image": c.image}}}})
		out := engine.Eval(t.Context(), engine.Input{Selections: []policy.Selection{{Program: p, Rules: p.Rules}}, Request: r, Stages: policy.StageValidate})
		if len(p.Diags) > 0 || len(out.Results) != 1 || (out.Results[0].Status == policy.StatusPass) != c.want {
			t.Errorf("%s of %s: %+v, %v", c.glob, c.image, out.Results, p.Diags)
		}
	}
}
