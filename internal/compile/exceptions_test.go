package compile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Each kind of exceptions applies only to the policies of its families.
func TestKindsOfExceptions(t *testing.T) {
	for _, c := range []struct{ manifest, for1, notFor string }{
		{"{apiVersion: kyverno.io/v2, kind: PolicyException, metadata: {name: x, namespace: n}}", "ClusterPolicy Policy", "ValidatingPolicy CleanupPolicy"},
		{
			"{apiVersion: policies.kyverno.io/v1, kind: PolicyException, metadata: {name: x, namespace: n}}",
			"ValidatingPolicy NamespacedValidatingPolicy MutatingPolicy GeneratingPolicy NamespacedDeletingPolicy", "ClusterPolicy Policy ValidatingAdmissionPolicy",
		},
	} {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(c.manifest), &object); err != nil {
			t.Fatal(err)
		}
		e, _ := compile.OneException(compile.Object{Value: object})
		for kind := range strings.FieldsSeq(c.for1) {
			if !slices.Contains(e.Kinds, kind) {
				t.Errorf("%s are not for %s", e.APIVersion, kind)
			}
		}
		for kind := range strings.FieldsSeq(c.notFor) {
			if slices.Contains(e.Kinds, kind) {
				t.Errorf("%s are for %s", e.APIVersion, kind)
			}
		}
	}
	if e, diags := compile.OneException(compile.Object{Value: map[string]any{"apiVersion": "v1", "kind": "PolicyException"}}); e != nil || !diags.HasErrors() {
		t.Error("an object of no family is an exception")
	}
}

// In a cluster, the conditions of an exception make no lookups: they are evaluated with the reach of the policy, and their author may have
// fewer rights. On the command line they do, since it reads its own files.
func TestConditionsOfExceptionsReachNothing(t *testing.T) {
	for _, expression := range []string{
		`resource.Get('v1', 'secrets', 'kube-system', 'token').data.token.startsWith('a')`, `http.Get('http://attacker.example').ok == true`,
		`globalContext.Get('entry', '') == 'x'`, `image('nginx').registry() == 'docker.io'`, `exceptions.allowedValues.size() == 0`, `variables.x == 1`,
		`authorizer.path('/healthz').check('get').allowed()`,
	} {
		object := map[string]any{
			"apiVersion": "policies.kyverno.io/v1", "kind": "PolicyException", "metadata": map[string]any{"name": "x", "namespace": "n"},
			"spec": map[string]any{
				"policyRefs":      []any{map[string]any{"kind": "ValidatingPolicy", "name": "p"}},
				"matchConditions": []any{map[string]any{"name": "c", "expression": expression}},
			},
		}
		if _, diags := compile.OneException(compile.Object{Value: object}); !diags.HasErrors() {
			t.Errorf("%s is accepted in a cluster", expression)
		}
		_, diags := compile.ExceptionWith(compile.Object{Value: object}, family.Options{CommandLine: true})
		if known := !strings.HasPrefix(expression, "authorizer") && !strings.HasPrefix(expression, "variables"); diags.HasErrors() == known {
			t.Errorf("%s on the command line: %v", expression, diags)
		}
	}
}

// unevaluable are policies of all kinds that exceptions may name, by kind.
var unevaluable = map[string]string{
	"ClusterPolicy": `{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {rules: [{name: r, match: {any: [{resources: {kinds: [ConfigMap]}}]},
		validate: {message: m, pattern: {metadata: {labels: {team: "?*"}}}}}]}}`,
	"ValidatingPolicy":      celPolicy("ValidatingPolicy", `validations: [{expression: "has(object.metadata.labels.team)", message: m}]`),
	"ImageValidatingPolicy": celPolicy("ImageValidatingPolicy", `images: [{name: i, expression: "[string(object.data.image)]"}], matchImageReferences: [{glob: "*"}], attestors: [{name: a, notary: {certs: {value: x}}}], validations: [{expression: "images.i.size() == 1 && has(object.metadata.labels.team)", message: m}]`),
	"MutatingPolicy":        celPolicy("MutatingPolicy", `mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{annotations: {'a': 'b'}}}"}}]`),
	"MutatingPolicy of existing objects": celPolicy("MutatingPolicy", `evaluation: {mutateExisting: {enabled: true}},
		targetMatchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]},
		mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{annotations: {'a': 'b'}}}"}}]`),
	"GeneratingPolicy": celPolicy("GeneratingPolicy", `generate: [{expression: "generator.Apply('n', [{'apiVersion': dyn('v1'), 'kind': dyn('ConfigMap'), 'metadata': dyn({'name': 'made', 'namespace': 'n'})}])"}]`),
}

func celPolicy(kind, spec string) string {
	return `{apiVersion: policies.kyverno.io/v1, kind: ` + kind + `, metadata: {name: p}, spec: {
		matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]}, ` + spec + `}}`
}

// T25: an exception that cannot be evaluated, or uses up its budget, exempts nothing. The results of all rules for all objects are those without
// it, in requests and in scans, and other exceptions apply. The Outcome names it.
func TestT25ExceptionsThatCannotBeEvaluated(t *testing.T) {
	decode := func(manifest string) map[string]any {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(manifest, "\t", " ")), &object); err != nil {
			t.Fatal(err)
		}
		return object
	}
	exception := func(name, kind, expression string) *policy.Exception {
		manifest := fmt.Sprintf(`{apiVersion: policies.kyverno.io/v1, kind: PolicyException, metadata: {name: %s, namespace: x}, spec: {
			policyRefs: [{kind: %s, name: p}], matchConditions: [{name: c, expression: "%s"}]}}`, name, kind, expression)
		if kind == "ClusterPolicy" {
			manifest = fmt.Sprintf(`{apiVersion: kyverno.io/v2, kind: PolicyException, metadata: {name: %s, namespace: x}, spec: {
				exceptions: [{policyName: p, ruleNames: ["*"]}], match: {any: [{resources: {kinds: [ConfigMap]}}]},
				conditions: {all: [{key: "{{ %s }}", operator: Equals, value: true}]}}}`, name, expression)
		}
		e, diags := compile.OneException(compile.Object{Value: decode(manifest)})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		return e
	}
	objects := []map[string]any{
		decode(`{apiVersion: v1, kind: ConfigMap, metadata: {name: compliant, namespace: n, labels: {team: blue}}, data: {image: a}}`),
		decode(`{apiVersion: v1, kind: ConfigMap, metadata: {name: violating, namespace: n, labels: {app: other}}, data: {image: a}}`),
		decode(`{apiVersion: v1, kind: ConfigMap, metadata: {name: exempt, namespace: n, labels: {app: mine}}, data: {image: a}}`),
	}
	for name, manifest := range unevaluable {
		kind, _, _ := strings.Cut(name, " ")
		program, diags := compile.One(compile.Object{Value: decode(manifest)})
		if diags.HasErrors() {
			t.Fatalf("%s: %v", name, diags)
		}
		missing, endless := "object.metadata.annotations.nope == 'x'", "[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, [0,1,2,3,4,5,6,7,8,9].all(e, a + b + c + d + e >= 0)))))"
		mine := "object.metadata.?labels.?app.orValue('') == 'mine'"
		if kind == "ClusterPolicy" {
			missing, endless = "request.object.metadata.annotations.nope", "length(random('[a-z]{200000}')) > `0` && length(random('[a-z]{200000}')) > `0` && length(random('[a-z]{9000000}')) > `0`"
			mine = "request.object.metadata.labels.app == 'mine'"
		}
		good := exception("c-good", kind, mine)
		broken := []*policy.Exception{exception("a-broken", kind, missing), exception("b-endless", kind, endless)}
		for _, origin := range []policy.RequestOrigin{policy.FromAdmission, policy.FromScan} {
			eval := func(object map[string]any, exceptions ...*policy.Exception) policy.Outcome {
				req := &policy.Request{Review: policy.Review{
					Origin: origin, Operation: policy.Create, Object: value.Of(object), Namespace: "n", Name: "a",
					GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, RequestGVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
					GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
				}}
				p := catalog.Join([]*policy.Program{program}, exceptions)[0]
				return engine.Eval(t.Context(), engine.Input{
					Selections: []policy.Selection{{Program: p, Rules: p.Rules}}, Request: req,
					Stages: policy.StageValidate | policy.StageMutate | policy.StageVerifyImages | policy.StageGenerate | policy.StageMutateExisting,
				})
			}
			for _, object := range objects {
				at := fmt.Sprintf("%s, %v, %s", name, origin, object["metadata"].(map[string]any)["name"])
				before, after := eval(object, good), eval(object, append(slices.Clone(broken), good)...)
				if inWords(before) == "" || inWords(before) != inWords(after) {
					t.Errorf("%s:\n%s\nwithout broken exceptions:\n%s", at, inWords(after), inWords(before))
				}
				var named []string
				for _, e := range after.ExceptionErrors {
					if e.Message == "" || e.Rule == nil {
						t.Errorf("%s: nothing is known about the error of %s", at, e.Exception.Key())
					}
					named = append(named, e.Exception.Key())
				}
				if got := strings.Join(named, " "); got != "x/a-broken x/b-endless" {
					t.Errorf("%s: the outcome names %q", at, got)
				}
			}
		}
	}
}

// inWords returns results and work in words.
func inWords(out policy.Outcome) string {
	var b strings.Builder
	for _, r := range out.Results {
		fmt.Fprintln(&b, r.Rule.Name, r.Status, r.Message, policy.ExceptionKeys(r.Exceptions))
	}
	fmt.Fprint(&b, len(out.Work), " work, changed: ", out.Object != out.Request.Object)
	return b.String()
}
