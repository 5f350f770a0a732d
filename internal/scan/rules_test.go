package scan

import (
	"testing"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Scans evaluate a MutatingPolicy on the resources that it changes. With targets these are not the matched resources, and only the work has
// results, about the targets.
func TestRulesOfTargets(t *testing.T) {
	for name, c := range map[string]struct {
		targets            string
		scanned, elsewhere bool
	}{
		"matched resources": {scanned: true},
		"targets": {
			targets:   "\n  targetMatchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: ['*'], resources: [deployments]}]}",
			elsewhere: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var object map[string]any
			if err := yaml.Unmarshal([]byte(`
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: p}
spec:
  evaluation: {mutateExisting: {enabled: true}}
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/data/by', value: 'p'}]"}}]`+c.targets), &object); err != nil {
				t.Fatal(err)
			}
			program, diags := compile.With(compile.Object{Value: object}, nil, family.Options{Existing: true})
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			known := RulesOf(catalog.NewStatic([]*policy.Program{program}))
			of := report.RuleIn(program, program.Rules[0])
			if scanned := len(known[of]) > 0; scanned != c.scanned {
				t.Errorf("scanned is %v, want %v", scanned, c.scanned)
			}
			if live := known.Live(of); live != c.scanned { // earlier results about triggers are removed
				t.Errorf("results about matched resources are live: %v, want %v", live, c.scanned)
			}
			trigger := &policy.Request{Review: policy.Review{Origin: policy.FromScan}}
			if matched, _ := program.Rules[0].Match(t.Context(), trigger); c.elsewhere && matched {
				t.Error("the rule matches a trigger")
			}
			if of.Target = true; !known.Elsewhere(schema.GroupKind{Kind: "ConfigMap"}, of) {
				t.Error("results about targets are not those of work")
			}
		})
	}
}

// A rule may be about creations of one kind and about updates of another. Scans find no results about the second one.
func TestRulesByKind(t *testing.T) {
	pods, deployments, secrets := schema.GroupKind{Kind: "Pod"}, schema.GroupKind{Group: "apps", Kind: "Deployment"}, schema.GroupKind{Kind: "Secret"}
	for name, source := range map[string]string{
		"classic": `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [Deployment]}}, {resources: {kinds: [Pod], operations: [UPDATE]}}]}
    validate: {deny: {}}`,
		"cel": `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: p}
spec:
  autogen: {podControllers: {controllers: []}}
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
    - {apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [pods]}
  validations: [{expression: "false"}]`,
	} {
		p := program(t, source)
		known, of := RulesOf(catalog.NewStatic([]*policy.Program{p})), report.RuleIn(p, p.Rules[0])
		if !known.Live(of) || !known.Elsewhere(pods, of) || known.Elsewhere(deployments, of) {
			t.Errorf("%s: live %v, only admission finds results about Pods: %v, about Deployments: %v", name, known.Live(of), known.Elsewhere(pods, of), known.Elsewhere(deployments, of))
		}
		if name == "classic" && known.Elsewhere(secrets, of) {
			t.Error("results about a kind that the rule no longer names stay")
		}
	}
}
