package compile_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/policy"
)

// bomb is a regular expression of 3.3 kB that becomes 600,000 instructions, some 300 MB.
var bomb = strings.Repeat("[ab]{0,990}", 300)

// half is a regular expression that may be compiled alone, but not ten times in one policy.
var half = strings.Repeat("[ab]{0,990}", 3)

// costly returns a policy of a kind whose text, at the place, is expensive to compile.
func costly(kind, spec string) string {
	group := "policies.kyverno.io/v1beta1"
	switch kind {
	case "ClusterPolicy", "Policy":
		group = "kyverno.io/v1"
	case "ClusterCleanupPolicy", "CleanupPolicy":
		group = "kyverno.io/v2"
	case "ValidatingAdmissionPolicy":
		group = "admissionregistration.k8s.io/v1"
	}
	namespace := ""
	if strings.HasPrefix(kind, "Namespaced") || kind == "Policy" || kind == "CleanupPolicy" {
		namespace = ", namespace: team-a"
	}
	return "apiVersion: " + group + "\nkind: " + kind + "\nmetadata: {name: costly" + namespace + "}\nspec:\n" + spec
}

const (
	podRules  = "  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}\n"
	matchPods = "match: {any: [{resources: {kinds: [Pod]}}]}"
)

// bombs are expensive texts, one for each place where a text becomes a program, with the path of the mistake.
func bombs() map[string][2]string {
	query := "{{ regex_match('" + half + "', '@') }}"
	many := func(format string) string {
		var b strings.Builder
		for i := range 60 {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	rule := func(body string) string {
		return costly("ClusterPolicy", "  rules:\n  - {name: r, "+matchPods+", "+body+"}\n")
	}
	return map[string][2]string{
		"a validation":      {costly("NamespacedValidatingPolicy", podRules+"  validations: [{expression: \"object.metadata.name.matches('"+bomb+"')\"}]"), "spec.validations[0].expression"},
		"find":              {costly("ValidatingPolicy", podRules+"  validations: [{expression: \"object.metadata.name.find('"+bomb+"') == ''\"}]"), "spec.validations[0].expression"},
		"a variable":        {costly("ValidatingPolicy", podRules+"  variables: [{name: v, expression: \"object.metadata.name.findAll('"+bomb+"')\"}]\n  validations: [{expression: \"true\"}]"), "spec.variables[0].expression"},
		"a match condition": {costly("ValidatingPolicy", podRules+"  matchConditions: [{name: c, expression: \"object.metadata.name.matches('"+bomb+"')\"}]\n  validations: [{expression: \"true\"}]"), "spec.matchConditions[0].expression"},
		"a message":         {costly("ValidatingPolicy", podRules+"  validations: [{expression: \"true\", messageExpression: \"string(object.metadata.name.matches('"+bomb+"'))\"}]"), "spec.validations[0].messageExpression"},
		"many validations":  {costly("ValidatingPolicy", podRules+"  validations:\n"+many("  - {expression: \"object.metadata.name.matches('"+half+"') || %d > 0\"}\n")), "spec.validations["},
		"tokens":            {costly("ValidatingPolicy", podRules+"  validations: [{expression: \"["+strings.Repeat("1,", 8000)+"1].size() > 0\"}]"), "spec.validations[0].expression"},
		"a mutation":        {costly("MutatingPolicy", podRules+"  mutations: [{patchType: JSONPatch, jsonPatch: {expression: \"'a'.matches('"+bomb+"') ? [] : []\"}}]"), "spec.mutations[0].jsonPatch.expression"},
		"a generation":      {costly("GeneratingPolicy", podRules+"  generate: [{expression: \"'a'.matches('"+bomb+"')\"}]"), "spec.generate[0].expression"},
		"a deletion":        {costly("DeletingPolicy", "  schedule: '* * * * *'\n"+podRules+"  conditions: [{name: c, expression: \"object.metadata.name.matches('"+bomb+"')\"}]"), "spec.conditions[0].expression"},
		"an image policy":   {costly("ImageValidatingPolicy", podRules+"  matchImageReferences: [{expression: \"ref.matches('"+bomb+"')\"}]\n  validations: [{expression: \"true\"}]"), "spec.matchImageReferences[0].expression"},
		"an identity": {costly("ImageValidatingPolicy", podRules+"  matchImageReferences: [{glob: '*'}]\n  attestors: [{name: a, cosign: {keyless: {identities: [{issuer: i, subjectRegExp: '"+bomb+"'}]}}}]\n  validations: [{expression: \"true\"}]"),
			"spec.attestors[0].cosign.keyless.identities"},
		"globs": {costly("ImageValidatingPolicy", podRules+"  matchImageReferences:\n"+many("  - {glob: 'registry.example/%[1]d/"+strings.Repeat("?", 990)+"'}\n  - {glob: 'registry.example/a%[1]d/"+strings.Repeat("?", 990)+"'}\n  - {glob: 'registry.example/b%[1]d/"+strings.Repeat("?", 990)+"'}\n")+
			"  validations: [{expression: \"true\"}]"), "spec.matchImageReferences["},
		"a policy of the API server": {costly("ValidatingAdmissionPolicy", podRules+"  validations: [{expression: \"object.metadata.name.matches('"+bomb+"')\"}]"), "spec.validations[0].expression"},
		"a rule in CEL":              {rule("validate: {cel: {expressions: [{expression: \"object.metadata.name.matches('" + bomb + "')\"}]}}"), "spec.rules[0].validate.cel.expressions[0].expression"},
		"conditions":                 {rule("validate: {deny: {conditions: {any: [" + many("{key: \""+query+"\", operator: Equals, value: %d},") + "]}}}"), "spec.rules[0].validate.deny.conditions.any["},
		"preconditions":              {rule("preconditions: {any: [" + many("{key: \""+query+"\", operator: Equals, value: %d},") + "]}, validate: {deny: {}}"), "spec.rules[0].preconditions.any["},
		"a message of a rule":        {rule("validate: {message: \"" + many(query+"%d") + "\", deny: {}}"), "spec.rules[0].validate.message"},
		"a pattern":                  {rule("validate: {pattern: {metadata: {" + many("a%d: \""+query+"\",") + "}}}"), "spec.rules[0].validate.pattern"},
		"alternatives":               {rule("validate: {anyPattern: [{metadata: {" + many("a%d: \""+query+"\",") + "}}]}"), "spec.rules[0].validate.anyPattern"},
		"a merge":                    {rule("mutate: {patchStrategicMerge: {metadata: {labels: {" + many("a%d: \""+query+"\",") + "}}}}"), "spec.rules[0].mutate.patchStrategicMerge"},
		"a JSON patch":               {rule("mutate: {patchesJson6902: \"[" + many("{op: add, path: /metadata/labels/a%d, value: '"+strings.ReplaceAll(query, "'", "`\\\"`")+"'},") + "]\"}"), "spec.rules[0].mutate.patchesJson6902"},
		"generated data":             {rule("generate: {apiVersion: v1, kind: ConfigMap, name: a, namespace: b, data: {data: {" + many("a%d: \""+query+"\",") + "}}}"), "spec.rules[0].generate.data"},
		"context":                    {rule("context: [" + many("{name: v%d, variable: {jmesPath: \"regex_match('"+half+"', 'a')\"}},") + "], validate: {deny: {}}"), "spec.rules[0].context["},
		"a list":                     {rule("validate: {foreach: [" + many("{list: \"regex_match('"+half+"', 'a') && a%d\", deny: {}},") + "]}"), "spec.rules[0].validate.foreach["},
		"signers":                    {rule("verifyImages: [{imageReferences: ['*'], attestors: [{entries: [{keyless: {rekor: {url: 'https://rekor.example'}, issuer: i, subjectRegExp: '" + bomb + "'}}]}]}]"), "spec.rules[0].verifyImages[0].attestors[0].entries[0].keyless"},
		"a cleanup":                  {costly("CleanupPolicy", "  schedule: '* * * * *'\n  "+matchPods+"\n  conditions: {any: ["+many("{key: \""+query+"\", operator: Equals, value: %d},")+"]}"), "spec.conditions.any["},
	}
}

func compiled(t *testing.T, text string) (*policy.Program, diag.List) {
	t.Helper()
	return compile.One(compile.Object{Value: golden.Decode[map[string]any](t, []byte(text))})
}

// TestT15BombsAreRecognized: an expensive text is a mistake with its place, in every place where a text becomes a program, and it is recognized
// with little memory.
func TestT15BombsAreRecognized(t *testing.T) {
	for name, b := range bombs() {
		t.Run(name, func(t *testing.T) {
			compiled(t, costly("ValidatingPolicy", podRules+"  validations: [{expression: \"true\"}]")) // environments are built on first use
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			program, diags := compiled(t, b[0])
			runtime.GC()
			runtime.ReadMemStats(&after)
			if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); !raceDetector && kept > 2*compilecost.MaxPolicyBytes {
				t.Errorf("it keeps %d MB", kept>>20)
			}
			runtime.KeepAlive(program)
			found := false
			for _, d := range diags.Errors() {
				found = found || strings.Contains(d.Path, strings.TrimPrefix(b[1], "spec."))
			}
			if !found {
				t.Errorf("no mistake at %s: %.500v", b[1], diags)
			}
		})
	}
}

// TestT15HonestPolicies: 1.5 MB of rules that people write compile, with their generated rules.
func TestT15HonestPolicies(t *testing.T) {
	rules := []string{
		"validate: {message: 'Host namespaces are not allowed', pattern: {spec: {=(hostPID): 'false', =(hostIPC): 'false', =(hostNetwork): 'false', containers: [{image: '!*:latest', securityContext: {privileged: false}}]}}}",
		"validate: {message: 'The image is not allowed', foreach: [{list: 'request.object.spec.containers', deny: {conditions: {all: [{key: '{{ element.image }}', operator: AnyNotIn, value: ['registry.example/*', 'mirror.example/*']}]}}}]}",
		"mutate: {patchStrategicMerge: {metadata: {labels: {+(team): \"{{ request.object.metadata.annotations.team || 'none' }}\"}}}}",
		"validate: {message: 'The name needs a number', deny: {conditions: {any: [{key: \"{{ regex_match('^[a-z]+-[0-9]{1,3}$', '{{request.object.metadata.name}}') }}\", operator: Equals, value: false}]}}}",
		"context: [{name: labels, variable: {jmesPath: \"request.object.metadata.labels || `{}`\"}}], validate: {message: 'The label team is missing', deny: {conditions: {any: [{key: '{{ labels.team }}', operator: Equals, value: ''}]}}}",
	}
	var b strings.Builder
	b.WriteString("  rules:\n")
	for i := 0; b.Len() < 1500<<10; i++ {
		fmt.Fprintf(&b, "  - {name: rule-%d, %s, exclude: {any: [{resources: {namespaces: [kube-system, monitoring-%[1]d]}}]}, %[3]s}\n", i, matchPods, rules[i%len(rules)])
	}
	program, diags := compiled(t, costly("ClusterPolicy", b.String()))
	if diags.HasErrors() || len(program.Rules) < 5000 {
		t.Errorf("%d rules, %.2000v", len(program.Rules), diags)
	}
	if program.Held == 0 || program.Held > compilecost.MaxPolicyBytes/2 {
		t.Errorf("it is estimated to keep %d bytes", program.Held)
	}
}
