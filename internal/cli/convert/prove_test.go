package convert

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/convert"
	"ephor.invalid/ephor/internal/schema"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/value"
)

// TestExamples converts all policies in examples/pod-security and compares each with its conversion.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../../examples/pod-security/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d policies in examples/pod-security: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			cmd := New()
			var out, report bytes.Buffer
			cmd.SetArgs([]string{file, "--prove", "--samples", "120"})
			cmd.SetOut(&out)
			cmd.SetErr(&report)
			err := cmd.Execute()
			switch {
			case err != nil:
				t.Errorf("%v\n%s", err, &report)
			case !strings.Contains(out.String(), "kind: ValidatingPolicy") || !strings.Contains(report.String(), "120 resources compared"):
				t.Errorf("%s\n%s", &out, &report)
			}
		})
	}
}

// TestOtherKinds converts rules that mutate and generate, and a cleanup policy, and compares each with its conversion.
func TestOtherKinds(t *testing.T) {
	for _, c := range []struct{ file, kind, did string }{
		{"mutate-merge.yaml", "MutatingPolicy", "changed"},
		{"mutate-json.yaml", "MutatingPolicy", "changed"},
		{"mutate-loop.yaml", "MutatingPolicy", "changed"},
		{"mutate-loop-keys.yaml", "MutatingPolicy", "changed"},
		{"mutate-null.yaml", "MutatingPolicy", "changed"},
		{"mutate-pointer.yaml", "MutatingPolicy", "changed"},
		{"mutate-empty-list.yaml", "MutatingPolicy", "changed"},
		{"mutate-existing.yaml", "MutatingPolicy", "changing others"},
		{"mutate-existing-name.yaml", "MutatingPolicy", "changing others"},
		{"generate-data.yaml", "GeneratingPolicy", "generating"},
		{"generate-clone.yaml", "GeneratingPolicy", "generating"},
		{"generate-marks.yaml", "GeneratingPolicy", "generating"},
		{"constants.yaml", "ValidatingPolicy", "violating"},
		{"pattern-map.yaml", "ValidatingPolicy", "violating"},
		{"whole-object.yaml", "ValidatingPolicy", "violating"},
		{"lookup.yaml", "ValidatingPolicy", "violating"},
		{"cleanup.yaml", "DeletingPolicy", "deleted"},
		{"images-keys.yaml", "ImageValidatingPolicy", "violating or changed"},
		{"images-statements.yaml", "ImageValidatingPolicy", "violating or changed"},
		{"images-notary.yaml", "ImageValidatingPolicy", "violating or changed"},
		{"images-digests.yaml", "ImageValidatingPolicy", "violating or changed"},
		{"images-conditions.yaml", "ImageValidatingPolicy", "violating or changed"},
		{"images-extractors.yaml", "ImageValidatingPolicy", "violating or changed"},
		{"styles-validate.yaml", "ValidatingPolicy", "violating"},
		{"styles-mutate.yaml", "MutatingPolicy", "changed"},
	} {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			cmd := New()
			var out, report bytes.Buffer
			cmd.SetArgs([]string{"testdata/" + c.file, "--prove", "--samples", "150", "--resource", "testdata/resources.yaml"})
			cmd.SetOut(&out)
			cmd.SetErr(&report)
			if err := cmd.Execute(); err != nil {
				t.Errorf("%v\n%s", err, &report)
			}
			m := regexp.MustCompile(`, (\d+) ` + c.did + `, 0 different`).FindStringSubmatch(report.String())
			if m == nil || m[1] == "0" || !strings.Contains(out.String(), "kind: "+c.kind) {
				t.Errorf("no effect, or not the kind %s:\n%s\n%s", c.kind, &out, &report)
			}
		})
	}
}

// A difference in the effects of policies is found, for each kind of rules.
func TestCompareEffects(t *testing.T) {
	known := schema.New()
	for file, change := range map[string]struct{ from, to string }{
		"mutate-merge.yaml":         {"'IfNotPresent'", "'Never'"},
		"mutate-existing.yaml":      {"== 'follower'", "!= 'none'"},
		"mutate-existing-name.yaml": {"target.metadata.name == object.metadata.name", "target.metadata.name != object.metadata.name"},
		"generate-data.yaml":        {"default-deny", "default-allow"},
		"cleanup.yaml":              {"24h", "1h"},
		"images-keys.yaml":          {"attestors.attestor6", "attestors.attestor5"},
		"images-notary.yaml":        {">= 1", ">= 2"},
		"images-conditions.yaml":    {"duration('48h0m0s')", "duration('1000h0m0s')"},
		"images-extractors.yaml":    {"has(step.image)", "has(step.name)"},
	} {
		objects, diags := source.Load([]string{"testdata/" + file}, source.Options{Numbers: source.Exact})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		rules, diags := convert.Policy(objects[0].Value, schemas(known))
		if diags.HasErrors() || len(rules) != 1 || rules[0].Policy == nil {
			t.Fatal(file, rules, diags)
		}
		changed := value.JSON(rules[0].Policy)
		if !strings.Contains(changed, change.from) {
			t.Fatalf("%s does not contain %s", changed, change.from)
		}
		v, err := value.DecodeJSON([]byte(strings.ReplaceAll(changed, change.from, change.to)))
		if err != nil {
			t.Fatal(err)
		}
		rules[0].Policy = v.(map[string]any)
		var report strings.Builder
		same, err := prover{known: known, samples: 200, seed: 1}.compare(t.Context(), &report, "rule", oneRule(objects[0].Value, 0, rules[0].Controllers), rules[0])
		if err != nil || same || !strings.Contains(report.String(), " differ: the classic rule gives") {
			t.Errorf("%s: %v %v\n%s", file, same, err, &report)
		}
	}
}

// TestCompare finds the difference between a classic rule and a policy that was changed after its conversion.
func TestCompare(t *testing.T) {
	objects, diags := source.Load([]string{"../../../examples/pod-security/disallow-privileged-containers.yaml"}, source.Options{Numbers: source.Exact})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	known := schema.New()
	rules, diags := convert.Policy(objects[0].Value, schemas(known))
	if diags.HasErrors() || len(rules) != 1 || rules[0].Policy == nil {
		t.Fatal(rules, diags)
	}
	validation := rules[0].Policy["spec"].(map[string]any)["validations"].([]any)[0].(map[string]any)
	for name, c := range map[string]struct{ from, to, want string }{
		"the same":  {"object", "object", " 0 different"},
		"less":      {"object.spec.initContainers", "object.spec.ephemeralContainers", "the classic rule gives fail"},
		"more":      {"object.spec.containers.all", "object.metadata.name == 'x' && object.spec.containers.all", "the CEL policy gives fail"},
		"a mistake": {"object.spec.containers.all(", "object.spec.containers.all((", "the converted policy is invalid"},
	} {
		expression := validation["expression"].(string)
		if !strings.Contains(expression, c.from) {
			t.Fatalf("%s does not contain %s", expression, c.from)
		}
		validation["expression"] = strings.ReplaceAll(expression, c.from, c.to)
		var report strings.Builder
		same, err := prover{known: known, samples: 200, seed: 1}.compare(t.Context(), &report, "rule", oneRule(objects[0].Value, 0, rules[0].Controllers), rules[0])
		if err != nil || same != (name == "the same") || !strings.Contains(report.String(), c.want) {
			t.Errorf("%s: %v %v, want %q in\n%s", name, same, err, c.want, &report)
		}
		validation["expression"] = expression
	}
}

// TestUnasked names the subresources of Pods that a policy in CEL does not see: none of a policy that validates or changes Pods.
func TestUnasked(t *testing.T) {
	known := schema.New()
	for name, c := range map[string]struct{ policy, edit, want string }{
		"validates":       {"../../../examples/library/restrict-image-registries/policy.yaml", "", ""},
		"switched off":    {"../../../examples/library/restrict-image-registries/policy.yaml", "false", "the CEL policy is not asked about pods/ephemeralcontainers and pods/resize, the classic rule is"},
		"changes Pods":    {"testdata/mutate-merge.yaml", "", ""},
		"verifies images": {"testdata/images-keys.yaml", "", ""},
	} {
		objects, diags := source.Load([]string{c.policy}, source.Options{Numbers: source.Exact})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		rules, diags := convert.Policy(objects[0].Value, schemas(known))
		if diags.HasErrors() || len(rules) == 0 || rules[0].Policy == nil {
			t.Fatal(name, rules, diags)
		}
		if c.edit != "" {
			rules[0].Policy["metadata"].(map[string]any)["annotations"] = map[string]any{"ephor.dev/pod-subresources": c.edit}
		}
		var report strings.Builder
		same, err := prover{known: known, samples: 100, seed: 1}.compare(t.Context(), &report, "rule", oneRule(objects[0].Value, 0, rules[0].Controllers), rules[0])
		if named := strings.Contains(report.String(), "is not asked about"); err != nil || !same || named != (c.want != "") || !strings.Contains(report.String(), c.want) {
			t.Errorf("%s: %v %v, want %q in\n%s", name, same, err, c.want, &report)
		}
	}
}

// TestSampler generates the same resources from the same seed, of all kinds, with the types of the API.
func TestSampler(t *testing.T) {
	objects, _ := source.Load([]string{"../../../examples/pod-security/disallow-privileged-containers.yaml"}, source.Options{Numbers: source.Exact})
	p := prover{known: schema.New(), seed: 7}
	program, diags := compiled(objects[0].Value)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	made := newSampler(p, objects[0].Value, convert.Rule{Uncovered: []string{"ReplicationController"}}, program, nil).objects(300)
	again := newSampler(p, objects[0].Value, convert.Rule{Uncovered: []string{"ReplicationController"}}, program, nil).objects(300)
	var kinds []string
	flags := map[any]int{}
	for i, o := range made {
		if o["metadata"].(map[string]any)["name"] != again[i]["metadata"].(map[string]any)["name"] {
			t.Fatalf("resource %d differs", i)
		}
		kind := o["kind"].(string)
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		if kind != "Pod" {
			continue
		}
		containers, _ := o["spec"].(map[string]any)["containers"].([]any)
		for _, c := range containers {
			security, _ := c.(map[string]any)["securityContext"].(map[string]any)
			if v, there := security["privileged"]; there {
				flags[v]++
			}
		}
	}
	slices.Sort(kinds)
	if want := []string{"CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "StatefulSet"}; !slices.Equal(kinds, want) {
		t.Errorf("%v", kinds)
	}
	if len(flags) != 2 || flags[true] == 0 || flags[false] == 0 {
		t.Errorf("privileged: %v", flags)
	}
}
