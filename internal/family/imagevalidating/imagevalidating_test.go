package imagevalidating_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/family/familytest"
	"ephor.invalid/ephor/internal/family/imagevalidating"
	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// notary simulates verification: an attestor whose key or certificate is "outage" cannot be verified; other attestors have signed the
// images whose names contain their keys.
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

// registries returns every image whose name does not contain "missing".
func registries(_ context.Context, r world.ImageRequest) (map[string]any, error) {
	if strings.Contains(r.Reference, "missing") {
		return nil, errors.New("MANIFEST_UNKNOWN")
	}
	return map[string]any{"resolvedImage": r.Reference + "@" + digest, "configData": map[string]any{"architecture": "amd64"}}, nil
}

// TestData runs testdata/*.txtar. policy….yaml are policies, exceptions.yaml (optional) are exceptions from them. requests.yaml is a list
// of requests {name, operation, subresource, object, oldObject}, which all policies first mutate and then validate, in a World with notary and
// registries, or with `verifies: false` in one without verification. want holds the diagnostics, the resources of the rules and the
// results.
func TestData(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, in golden.Inputs) string {
		var programs []*policy.Program
		var b strings.Builder
		for _, f := range in {
			if strings.HasPrefix(f.Name, "policy") {
				programs = append(programs, compile(t, f.Data, &b))
			}
		}
		familytest.Except(&b, programs, golden.Objects(t, in.Text("exceptions.yaml")))
		for _, r := range golden.Objects(t, in.Text("requests.yaml")) {
			evaluate(t, programs, r, &b)
		}
		return b.String()
	})
}

func compile(t *testing.T, text []byte, notes *strings.Builder) *policy.Program {
	t.Helper()
	object := golden.Decode[map[string]any](t, text)
	p := imagevalidating.Family.Compile(family.Source{Object: object, Options: family.Options{CommandLine: strings.Contains(string(text), "mode: JSON")}})
	for _, d := range p.Diags {
		fmt.Fprintln(notes, d)
	}
	familytest.Rules(notes, p)
	for i := range p.Webhooks {
		fmt.Fprintf(notes, "webhook: %s %s %s\n", p.Webhooks[i].Name, p.Webhooks[i].Path, p.Webhooks[i].Own)
		if p.Webhooks[i].Selection.Exact {
			fmt.Fprintln(notes, "  matchPolicy: Exact")
		}
	}
	return p
}

func evaluate(t *testing.T, programs []*policy.Program, in map[string]any, out *strings.Builder) {
	t.Helper()
	r := familytest.Review(in)
	if version, ok := in["asked"].(string); ok {
		r.Asked.GVR = schema.GroupVersionResource{Group: r.GVR.Group, Version: version, Resource: r.GVR.Resource}
	}
	w := world.World{Images: world.Images{Image: registries}, Signatures: notary{}}
	if in["verifies"] == false {
		w.Signatures = nil
	}
	input := engine.Input{Selections: familytest.Select(programs...), Request: r, Root: world.RootFunc(func(world.Reach) world.World { return w })}
	fmt.Fprintf(out, "%s:", in["name"])
	if r.Object != nil {
		input.Stages = policy.StageMutate
		mutated := engine.Eval(t.Context(), input)
		familytest.Results(out, &mutated)
		before, _ := r.Object.Value()
		after, _ := mutated.Object.Value()
		if value.JSON(before) != value.JSON(after) {
			fmt.Fprintf(out, " images: %s;", strings.Join(found(after), " "))
		}
		input.Request = r.WithObject(mutated.Object)
		decision := engine.Decide(&mutated, celpolicy.Validating)
		if !decision.Allowed {
			fmt.Fprintf(out, " → denied: %s\n", decision.Message)
			return
		}
		for _, warning := range decision.Warnings {
			fmt.Fprintf(out, " warning %q", warning)
		}
	}
	input.Stages = policy.StageValidate
	outcome := engine.Eval(t.Context(), input)
	familytest.Results(out, &outcome)
	if decision := engine.Decide(&outcome, celpolicy.Validating); decision.Allowed {
		for _, warning := range decision.Warnings {
			fmt.Fprintf(out, " warning %q", warning)
		}
		fmt.Fprintln(out, " → allowed")
	} else {
		fmt.Fprintf(out, " → denied: %s\n", decision.Message)
	}
}

// found returns all texts in fields named image or reference.
func found(v any) (out []string) {
	switch x := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			if text, ok := x[k].(string); ok && (k == "image" || k == "reference") {
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

// The status contains the generated policies, and no message from before.
func TestStatus(t *testing.T) {
	for _, expression := range []string{"true", "verifyImageSignatures(images.containers[0], []) == 0"} {
		object := golden.Decode[map[string]any](t, []byte(`
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
		if status["message"] != "" || status["ready"] != true {
			t.Errorf("%s: %v", expression, status)
		}
		if !strings.Contains(configs, `"has(object.spec.template.metadata.labels)"`) || !strings.Contains(configs, `"attestors":[]`) || !strings.Contains(configs, "cronjobs") {
			t.Errorf("generated: %s", configs)
		}
	}
}

// Globs are compared with all spellings of an image.
func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		glob, image string
		want        bool
	}{
		{"ghcr.io/*", "ghcr.io/a/b:1", true}, {"ghcr.io/**", "ghcr.io/a", true}, {"*", "nginx", true}, {"ghcr.io/*", "xghcr.io/a", false},
		{"ghcr?io/a", "ghcr.io/a", true}, {"ghcr.io/a", "ghcrxio/a", false}, {"a[b-d]", "ac", true}, {"a[!b-d]", "ac", false}, {"a[^b-d]", "ae", true},
		{"{a,b*}:1", "bcd:1", true}, {"{a,b}:1", "c:1", false}, {"a,b", "a,b", true}, {`a\*`, "ab", false}, {`a\*`, "a*", true}, {"a}", "a}", true},
		{"ghcr.io/*", "GHCR.io/a", true}, {"ghcr.io/a", "ghcr.io/A", false}, {"é*", "éa", true}, {"a[.]b", "axb", false},
		// T19: another spelling of an image does not evade a glob.
		{"ghcr.io/*", "ghcr.io:443/a", true}, {"GHCR.io:443/*", "ghcr.io/a", true}, {"docker.io/acme/*", "acme/app", true}, {"acme/*", "docker.io/acme/app", true},
		{"docker.io/library/*", "nginx", true}, {"nginx*", "index.docker.io/library/nginx:1", true}, {"{docker,quay}.io/nginx", "nginx:latest", true},
		{"ghcr.io/{a:*,b:v1}", "ghcr.io/a@" + digest, true}, {"ghcr.io/{a:*,b:v1}", "ghcr.io/b@" + digest, false}, {"docker.io/acme/*", "ghcr.io/acme/app", false},
	} {
		object := golden.Decode[map[string]any](t, []byte(`
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
		r := &policy.Request{Review: policy.Review{Operation: policy.Create, GVK: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}}
		r.RequestGVK = r.GVK
		r.Object = value.Of(map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"image": c.image}}}})
		out := engine.Eval(t.Context(), engine.Input{Selections: []policy.Selection{{Program: p, Rules: p.Rules}}, Request: r, Stages: policy.StageValidate})
		if len(p.Diags) > 0 || len(out.Results) != 1 || (out.Results[0].Status == policy.StatusPass) != c.want {
			t.Errorf("%s of %s: %+v, %v", c.glob, c.image, out.Results, p.Diags)
		}
	}
}

func (notary) Blob(context.Context, world.BlobRequest) (string, error) {
	return "", world.ErrUnavailable
}
