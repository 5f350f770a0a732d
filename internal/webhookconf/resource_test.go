package webhookconf

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/discovery/discoverytest"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
)

// TestThousandPolicies: the API server can store the configurations for a thousand policies. Shared webhooks do not grow with the number
// of policies. Webhooks of single policies are divided among configurations, and none is lost.
func TestThousandPolicies(t *testing.T) {
	var programs []*policy.Program
	for i := range 1000 {
		programs = append(programs,
			classicPolicy(t, fmt.Sprint("shared-", i), fmt.Sprintf("match: {any: [{resources: {kinds: [Pod, ConfigMap], namespaces: [team-%d]}}]}; %s", i, deny)),
			program(fmt.Sprintf("fine-with-a-name-that-is-not-short-either-%d", i), func(p *policy.Program) {
				p.Settings.MatchConditions = []policy.MatchCondition{{Name: "only-my-team", Expression: fmt.Sprintf(`request.namespace == "team-%d" && object.metadata.name != "x"`, i)}}
			}, "Pod", "Deployment", "Job"))
	}
	input := in(programs...)
	input.CABundle = make([]byte, 4000) // two authorities, while one replaces the other
	input.Options.Derive = true
	got, _, _, err := Desired(input)
	if err != nil {
		t.Fatal(err)
	}
	webhooks, configurations := 0, 0
	for _, c := range all(got) {
		text, err := json.Marshal(c)
		if err != nil || len(text) > 768<<10 {
			t.Errorf("%s has %d bytes, %v", c.GetName(), len(text), err)
		}
		if c.GetName() != partName(ResourceValidating, configurations) {
			continue
		}
		configurations++
		names := []string{}
		for _, w := range webhooksOf(c) {
			names = append(names, w.name())
		}
		if !slices.IsSorted(names) {
			t.Errorf("%s is not in order", c.GetName())
		}
		webhooks += len(names)
	}
	if webhooks != 1001 || configurations < 2 {
		t.Errorf("%d webhooks in %d configurations", webhooks, configurations)
	}
	if w := webhooksOf(validatingOf(got, ResourceValidating)); w[0].name() != "validate.kyverno.svc-fail" || len(w[0].rules()) != 1 || len(conditionsOf(w[0])) != 0 {
		t.Errorf("the shared webhook comes first and has one rule: %s %d", w[0].name(), len(w[0].rules()))
	}
	again, _, _, _ := Desired(input)
	if one, two := must(json.Marshal(got)), must(json.Marshal(again)); string(one) != string(two) {
		t.Error("a second computation differs")
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// TestNamespaceSelector: our own namespace is always excluded, and kube-system is excluded unless the ConfigMap has a selector.
func TestNamespaceSelector(t *testing.T) {
	out := func(namespaces ...string) (l []metav1.LabelSelectorRequirement) {
		for _, n := range namespaces {
			l = append(l, metav1.LabelSelectorRequirement{Key: namespaceName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{n}})
		}
		return l
	}
	for _, c := range []struct {
		given string
		want  []metav1.LabelSelectorRequirement
	}{
		{``, out("kube-system", "kyverno")},
		{`{"namespaceSelector":{}}`, out("kyverno")},
		{`{"objectSelector":{}}`, out("kube-system", "kyverno")},
		{`{"namespaceSelector":{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["kube-system"]},{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["kyverno"]}],"matchLabels":null}}`,
			out("kube-system", "kyverno")},
		{`{"namespaceSelector":{"matchLabels":{"a":"b"}}}`, out("kyverno")},
	} {
		data := map[string]string{}
		if c.given != "" {
			data["webhooks"] = c.given
		}
		s, diags := settings.Parse(data)
		if len(diags) > 0 {
			t.Fatal(diags.Error())
		}
		input := in(program("p", nil, "Pod"))
		input.Settings = s
		got, _, _, _ := Desired(input)
		if sel := got.Validating[len(got.Validating)-1].Webhooks[0].NamespaceSelector; fmt.Sprint(sel.MatchExpressions) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v", c.given, sel)
		}
	}
}

// Names and conditions that the API server would reject are corrected, since it would reject all other webhooks with them.
func TestInvalidNamesAndConditionsAreCorrected(t *testing.T) {
	fine := func(namespace, name string, conditions ...policy.MatchCondition) *policy.Program {
		return program(name, func(p *policy.Program) {
			p.Namespace, p.Settings.MatchConditions = namespace, append(conditions, policy.MatchCondition{Name: "ok", Expression: "true"})
		}, "Service@CREATE")
	}
	broken := fine("", "broken", policy.MatchCondition{Name: "syntax", Expression: "a b"}, policy.MatchCondition{Name: "not a name", Expression: "true"}, policy.MatchCondition{Name: "ok", Expression: "false"})
	broken.Diags.Errorf("spec", "stored long ago")
	long := strings.Repeat("n", 253)
	got, _, _, err := Desired(in(fine("", "a-b"), fine("a", "b"), fine("", long), broken))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, w := range webhooksOf(validatingOf(got, ResourceValidating)) {
		if problems := validation.IsDNS1123Subdomain(w.name()); len(problems) > 0 || names[w.name()] {
			t.Errorf("%s: %v", w.name(), problems)
		}
		names[w.name()] = true
		if c := conditionsOf(w); len(c) != 1 || c[0].Name != "ok" {
			t.Errorf("%s: %v", w.name(), c)
		}
	}
	if len(names) != 4 || !names["validate.kyverno.svc-fail-finegrained-broken"] {
		t.Errorf("%v", names)
	}
}

// --autoUpdateWebhooks=false: the webhooks cover all resources, independent of the policies.
func TestStatic(t *testing.T) {
	input := in(program("p", nil, "Pod"))
	input.Options.Static, input.Options.Derive = true, true
	got, ready, _, _ := Desired(input)
	const want = `validate.kyverno.svc-fail /validate/fail Fail 10 if ephor.dev/not-by-wildcard
  "*" * */* * CONNECT,CREATE,DELETE,UPDATE
validate.kyverno.svc-ignore /validate/ignore Ignore 10 if ephor.dev/not-by-wildcard
  "*" * */* * CONNECT,CREATE,DELETE,UPDATE
`
	if text := text(got, false); text != want {
		t.Error(text)
	}
	const mutating = `mutate.kyverno.svc-fail /mutate/fail Fail 10 if ephor.dev/not-by-wildcard
  "*" * */* * CREATE,UPDATE
mutate.kyverno.svc-ignore /mutate/ignore Ignore 10 if ephor.dev/not-by-wildcard
  "*" * */* * CREATE,UPDATE
`
	if text := text(got, true); text != mutating {
		t.Error(text)
	}
	if _, known := ready["ClusterPolicy/p"]; !known || validatingOf(got, ResourceValidating).Annotations[staticAnnotation] == "" || validatingOf(got, PolicyValidating).Annotations[staticAnnotation] != "" {
		t.Error("want a ready policy, and a mark on resource configurations only")
	}
}

// --excludeBootstrapResources: webhooks that fail closed are never called for nodes and certificate signing requests.
func TestExcludeBootstrap(t *testing.T) {
	input := in(program("a", nil, "Pod"), program("b", func(p *policy.Program) { p.Settings.FailurePolicy = policy.Ignore }, "Pod"))
	input.Options.ExcludeBootstrap = true
	got, _, _, _ := Desired(input)
	for _, w := range webhooksOf(validatingOf(got, ResourceValidating)) {
		has := slices.ContainsFunc(conditionsOf(w), func(c admissionv1.MatchCondition) bool { return c.Name == "kyverno-exclude-bootstrap-resources" })
		if has != (*w.validating.FailurePolicy == admissionv1.Fail) {
			t.Errorf("%s: %v", w.name(), conditionsOf(w))
		}
	}
}

// The webhooks of a policy with a generate rule cover the kinds that it generates.
func TestGeneratedKinds(t *testing.T) {
	p := program("p", func(p *policy.Program) {
		p.Rules[0].Stage = policy.StageGenerate
		p.Rules[0].Outputs = []policy.Output{{APIVersion: "v1", Kind: "ConfigMap"}, {APIVersion: "v1", Kind: "{{ kind }}"}, {APIVersion: "example.com/v1", Kind: "Gone"}}
	}, "Namespace")
	got, _, unknown, err := Desired(in(p))
	if err != nil || unknown != 1 {
		t.Fatal(unknown, err)
	}
	const want = `validate.kyverno.svc-fail /validate/fail Fail 10
  "" v1 configmaps Namespaced CREATE,DELETE,UPDATE
  "" v1 namespaces * ` + everything + "\n"
	if text := text(got, false); text != want {
		t.Error(text)
	}
}

// Rules are only removed when all kinds are known: while a group cannot be listed, a webhook keeps its rules.
func TestRulesStayWhileDiscoveryFails(t *testing.T) {
	input := in(program("known", nil, "Pod@CREATE"), program("unknown", nil, "PodMetrics"))
	input.Resources = discovery.New(discoverytest.Broken{Served: cluster}, time.Now)
	scope := admissionv1.NamespacedScope
	input.Stored = func(configuration, webhook string) []admissionv1.RuleWithOperations {
		if configuration != ResourceValidating || webhook != "validate.kyverno.svc-fail" {
			return nil
		}
		return []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{
			APIGroups: []string{"metrics.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: &scope}}}
	}
	got, ready, _, err := Desired(input)
	if err != nil || ready["ClusterPolicy/unknown"] == nil {
		t.Fatal(ready, err)
	}
	const want = `validate.kyverno.svc-fail /validate/fail Fail 10
  "" v1 pods,pods/ephemeralcontainers Namespaced CREATE
  "metrics.k8s.io" v1 pods Namespaced CREATE
`
	if text := text(got, false); text != want {
		t.Error(text)
	}
	input.Programs = input.Programs[:1] // the policy is deleted, and all kinds of the others are known
	got, _, _, _ = Desired(input)
	if text := text(got, false); text != want[:len(want)-len("  \"metrics.k8s.io\" v1 pods Namespaced CREATE\n")] {
		t.Error(text)
	}
	input.Resources = discovery.New(noDiscovery{}, time.Now)
	if _, _, _, err := Desired(input); err == nil {
		t.Error("without a discovery list, the rules must not change")
	}
}
