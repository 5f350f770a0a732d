package webhookconf

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/policy"
)

var update = flag.Bool("update", false, "rewrite the expected webhooks")

// TestFamilies compares the resource webhooks of compiled policies, without certificates, with testdata/families: those of the validating and
// the mutating configuration, and those of our own validating configuration.
func TestFamilies(t *testing.T) {
	files, err := filepath.Glob("testdata/families/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			archive := txtar.Parse(text)
			var programs []*policy.Program
			want := -1
			for i, f := range archive.Files {
				if f.Name == "want.yaml" {
					want = i
					continue
				}
				var object map[string]any
				if err := yaml.Unmarshal(f.Data, &object); err != nil {
					t.Fatal(err)
				}
				p, diags := compile.One(compile.Object{Value: object})
				if diags.HasErrors() {
					t.Fatal(diags)
				}
				programs = append(programs, p)
			}
			input := in(programs...)
			input.Settings.Webhook.NamespaceSelector = nil
			got, _, _, err := Desired(input)
			if err != nil {
				t.Fatal(err)
			}
			out := []byte(shown(t, got))
			if *update {
				if want < 0 {
					archive.Files = append(archive.Files, txtar.File{Name: "want.yaml", Data: out})
				} else {
					archive.Files[want].Data = out
				}
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want < 0 || string(archive.Files[want].Data) != string(out) {
				t.Errorf("the webhooks are\n%s", out)
			}
		})
	}
}

// shown returns the text of the resource webhooks of the configurations.
func shown(t *testing.T, c Configurations) string {
	t.Helper()
	var webhooks []any
	var all []anyWebhook
	for _, name := range []string{ResourceValidating, NamespacedValidating, ExtraValidating} {
		if v := validatingOf(c, name); v != nil {
			all = append(all, webhooksOf(v)...)
		}
	}
	for _, name := range []string{ResourceMutating, NamespacedMutating} {
		if m := mutatingOf(c, name); m != nil {
			all = append(all, webhooksOf(m)...)
		}
	}
	for _, w := range all {
		w.clientConfig().CABundle = nil
		if w.validating != nil {
			webhooks = append(webhooks, w.validating)
		} else {
			webhooks = append(webhooks, w.mutating)
		}
	}
	out, err := yaml.Marshal(webhooks)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Static webhooks name no policies. A policy that is only evaluated if a path names it is not ready, and its author gets a warning. A
// policy without admission is ready.
func TestStaticFamilies(t *testing.T) {
	const constraints = `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}`
	compiled := func(text string) *policy.Program {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		p, diags := compile.One(compile.Object{Value: object})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		return p
	}
	for text, evaluated := range map[string]bool{
		`{apiVersion: policies.kyverno.io/v1, kind: ValidatingPolicy, metadata: {name: p}, spec: {` + constraints + `, validations: [{expression: "true"}]}}`:                                                                                                                       false,
		`{apiVersion: policies.kyverno.io/v1, kind: MutatingPolicy, metadata: {name: p}, spec: {` + constraints + `}}`:                                                                                                                                                              false,
		`{apiVersion: policies.kyverno.io/v1, kind: ValidatingPolicy, metadata: {name: p}, spec: {evaluation: {admission: {enabled: false}}, ` + constraints + `, validations: [{expression: "true"}]}}`:                                                                            true,
		`{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {rules: [{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {message: m, pattern: {spec: {a: b}}}}]}}`:                                                                           true,
		`{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {webhookConfiguration: {matchConditions: [{name: c, expression: "true"}]}, rules: [{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {message: m, pattern: {spec: {a: b}}}}]}}`: false,
		`{apiVersion: kyverno.io/v1, kind: Policy, metadata: {name: p, namespace: a}, spec: {webhookConfiguration: {timeoutSeconds: 20}, rules: [{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {message: m, pattern: {spec: {a: b}}}}]}}`:                        true,
	} {
		p := compiled(text)
		input := in(p)
		for _, static := range []bool{false, true} {
			input.Options.Static = static
			_, ready, _, err := Desired(input)
			if err != nil {
				t.Fatal(err)
			}
			if got := ready[ProgramKey(p)]; (got != nil) != (static && !evaluated) {
				t.Errorf("static %v: %s\n%v", static, text, got)
			}
			if warned := len(Review(p, input.Resources, nil, static)) > 0; warned != (static && !evaluated) {
				t.Errorf("static %v: warned %v for %s", static, warned, text)
			}
		}
	}
}
