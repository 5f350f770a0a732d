package webhookconf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
)

// What the API server rejects in a policy is not in a configuration. If the policy was stored without review, its mistake has a place.
func TestT17RulesOfAPolicy(t *testing.T) {
	for _, c := range []struct{ rule, mistake, want string }{
		{`{apiGroups: [""], apiVersions: [v1], operations: [CREATE, FOO], resources: [pods]}`, "spec.matchConstraints.resourceRules[0].operations[1]", `"" v1 pods * CREATE`},
		{`{apiGroups: [""], apiVersions: [v1], operations: [create], resources: [pods]}`, "spec.matchConstraints.resourceRules[0].operations[0]", ""},
		{`{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods], scope: Foo}`, "spec.matchConstraints.resourceRules[0].scope", ""},
		{`{apiGroups: ["*", a/b], apiVersions: ["*", a/b], operations: [CREATE], resources: [pods]}`, "", `"*" * pods * CREATE`},
	} {
		text := fmt.Sprintf(`{apiVersion: policies.kyverno.io/v1, kind: NamespacedValidatingPolicy, metadata: {name: p, namespace: team}, spec: {autogen: {podControllers: {controllers: []}}, matchConstraints: {resourceRules: [%s]}, validations: [{expression: "true"}]}}`, c.rule)
		p, diags := compile.One(compile.Object{Value: yamlMap(t, text)})
		var resources []string
		for _, d := range diags.Errors() {
			resources = append(resources, d.Path)
		}
		if got := strings.Join(resources, " "); got != c.mistake {
			t.Errorf("%s: mistakes at %q, want %q: %v", c.rule, got, c.mistake, diags)
		}
		got, _, _, err := Desired(in(p))
		if err != nil {
			t.Fatal(err)
		}
		accepted(t, got, discovery.Oldest)
		var rules []string
		if own := validatingOf(got, NamespacedValidating); own != nil {
			for _, r := range own.Webhooks[0].Rules {
				var ops []string
				for _, o := range r.Operations {
					ops = append(ops, string(o))
				}
				rules = append(rules, fmt.Sprintf("%q %s %s %s %s", r.APIGroups[0], strings.Join(r.APIVersions, ","), strings.Join(r.Resources, ","), *r.Scope, strings.Join(ops, ",")))
			}
		}
		if got := strings.Join(rules, "\n"); got != c.want {
			t.Errorf("%s: rules %s, want %s", c.rule, got, c.want)
		}
	}
}

// The webhooks of namespaced policies that select with the fields of a webhook are in configurations of their own.
func TestT17OwnConfigurations(t *testing.T) {
	p := selecting(t, "a", onPods, inNamespace("team"))
	p.Webhooks = append(p.Webhooks, policy.Webhook{Endpoint: groupChanges, Selection: p.Webhooks[0].Selection})
	got, _, _, err := Desired(in(p, selecting(t, "b", onPods), selecting(t, "c", onPods, inNamespace("other"), func(_ *policy.Program, w *policy.Webhook) { w.Own = policy.OwnTimeout })))
	if err != nil {
		t.Fatal(err)
	}
	where := map[string][]string{}
	for _, o := range all(got) {
		if IsResource(o.GetName()) {
			for _, w := range webhooksOf(o) {
				where[o.GetName()] = append(where[o.GetName()], PathOf(w.clientConfig()))
			}
		}
	}
	if text := fmt.Sprint(where); text != "map[kyverno-resource-mutating-webhook-cfg-namespaced:[/g/change/a] kyverno-resource-validating-webhook-cfg:[/g/b] kyverno-resource-validating-webhook-cfg-namespaced:[/ng/a /ng/c]]" {
		t.Error(text)
	}
}

// A match condition with functions that the API server lacks is not sent for policies whose conditions Ephor evaluates, too. A policy of
// kyverno.io is left out, and its review names the place.
func TestT17ConditionsOfTheServersVersion(t *testing.T) {
	const lists, semver = "lists.range(2).size() == 2", "semver('1.2.3').major() == 1"
	for _, c := range []struct {
		minor uint
		sent  []string
	}{{29, nil}, {32, nil}, {33, []string{semver}}, {34, []string{lists, semver}}} {
		conditions := &Conditions{Version: func() discovery.Version { return discovery.Version{Major: 1, Minor: c.minor} }}
		grouped := selecting(t, "a", onPods, inNamespace("team"), func(_ *policy.Program, w *policy.Webhook) {
			w.Own, w.Conditions = policy.OwnConditions, []policy.MatchCondition{{Name: "lists", Expression: lists}, {Name: "semver", Expression: semver}}
		})
		classic := program("classic", func(p *policy.Program) {
			p.Settings.MatchConditions = []policy.MatchCondition{{Name: "a", Expression: "true"}, {Name: "lists", Expression: lists}}
		}, "Pod")
		input := in(grouped, classic, program("other", nil, "Pod"))
		input.Conditions = conditions
		got, ready, _, err := Desired(input)
		if err != nil {
			t.Fatal(err)
		}
		accepted(t, got, discovery.Version{Major: 1, Minor: c.minor})
		var sent []string
		for _, m := range validatingOf(got, NamespacedValidating).Webhooks[0].MatchConditions {
			sent = append(sent, m.Expression)
		}
		knows := slices.Contains(c.sent, lists)
		if !slices.Equal(sent, c.sent) || ready["NamespacedGrouped/team/a"] != nil || ready["ClusterPolicy/other"] != nil {
			t.Errorf("1.%d: sent %q, ready %v", c.minor, sent, ready)
		}
		if left := (LeftOut{}); errors.As(ready["ClusterPolicy/classic"], &left) == knows || covered(got, classic) != knows {
			t.Errorf("1.%d: %v", c.minor, ready)
		}
		diags := Review(classic, input.Resources, conditions, false)
		if knows != (len(diags) == 0) || !knows && (!diags.HasErrors() || diags[0].Path != "spec.webhookConfiguration.matchConditions[1].expression") {
			t.Errorf("1.%d: %v", c.minor, diags)
		}
	}
}

// Conditions that are combined with others do not become invalid because of a comment at their end.
func TestT17CommentsInConditions(t *testing.T) {
	for _, text := range []string{
		`{apiVersion: policies.kyverno.io/v1, kind: NamespacedGeneratingPolicy, metadata: {name: p, namespace: team}, spec: {matchConditions: [{name: a, expression: "true // a comment"}],
			matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, generate: [{expression: "generator.Apply('team', [])"}]}}`,
		`{apiVersion: policies.kyverno.io/v1, kind: ValidatingPolicy, metadata: {name: p}, spec: {matchConditions: [{name: a, expression: "true // a comment"}],
			matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: "true"}]}}`,
	} {
		p, _ := compile.One(compile.Object{Value: yamlMap(t, text)})
		got, ready, _, err := Desired(in(p))
		if err != nil || ready[ProgramKey(p)] != nil || !covered(got, p) {
			t.Errorf("%v %v", ready, err)
		}
		accepted(t, got, discovery.Oldest)
	}
	have := make([]admissionv1.MatchCondition, maxConditions)
	for i := range have {
		have[i] = admissionv1.MatchCondition{Name: fmt.Sprint("n", i), Expression: "true // a comment"}
	}
	for _, err := range validateConditions(withCondition(have, "a", "false // another"), discovery.Oldest, nil) {
		t.Error(err)
	}
}

// The policies of a namespace have a quota in configurations. What exceeds it is left out, and others are not affected.
func TestT17Rooms(t *testing.T) {
	own := func(conditions, size int) func(*policy.Program, *policy.Webhook) {
		return func(_ *policy.Program, w *policy.Webhook) {
			w.Own = policy.OwnConditions
			for i := range conditions {
				w.Conditions = append(w.Conditions, policy.MatchCondition{Name: fmt.Sprint("n", i), Expression: "'" + strings.Repeat("x", size) + "' != ''"})
			}
		}
	}
	huge := func(p *policy.Program, w *policy.Webhook) {
		w.Selection.Rules[0].Resources = nil
		for i := range 100_000 {
			w.Selection.Rules[0].Resources = append(w.Selection.Rules[0].Resources, fmt.Sprint("resource-", i))
		}
	}
	var many, large, wordy, groups, selectors, versions []*policy.Program
	for i := range maxQuotaWebhooks + 3 {
		selectors = append(selectors, selecting(t, fmt.Sprintf("selector-%03d", i), fmt.Sprintf(`{objectSelector: {matchLabels: {a: "%d"}}, %s`, i, onPods[1:]), inNamespace("team")))
		versions = append(versions, program(fmt.Sprintf("version-%03d", i), func(p *policy.Program) {
			p.Kind, p.Namespace = "Policy", "team"
			p.Rules[0].Targets = []policy.Target{{Group: "autoscaling", Version: "v1", Kind: "HorizontalPodAutoscaler"}, {Group: "*", Version: "*", Kind: "Pod"}}
		}))
	}
	versions = append(versions, program("names-v2", func(p *policy.Program) {
		p.Rules[0].Targets = []policy.Target{{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}, {Group: "*", Version: "*", Kind: "Pod"}}
	}))
	for i := range maxQuotaWebhooks + 6 {
		many = append(many, selecting(t, fmt.Sprintf("many-%03d", i), onPods, inNamespace("team"), own(1, 1)))
	}
	for i := range 4 {
		large = append(large, selecting(t, fmt.Sprint("large-", i), onPods, inNamespace("team"), own(1, 40<<10)))
		wordy = append(wordy, selecting(t, fmt.Sprint("wordy-", i), onPods, inNamespace("team"), own(64, 1)))
	}
	wordy = append(wordy, selecting(t, "wordy-4", onPods, inNamespace("team"), own(1, 1)))
	for i := range 6 {
		groups = append(groups, selecting(t, fmt.Sprint("group-", i), onPods, func(p *policy.Program, w *policy.Webhook) {
			rules := &w.Selection.Rules[0]
			for n := range 6000 {
				rules.Resources = append(rules.Resources, fmt.Sprintf("resource-%d-%d", i, n))
			}
		}))
	}
	for _, c := range []struct {
		name     string
		programs []*policy.Program
		left     int
	}{
		{"webhooks", many, 6}, {"groups", selectors, 3}, {"versions", versions, 3}, {"bytes", large, 1}, {"conditions", wordy, 1},
		{"a tenant's huge rules", []*policy.Program{selecting(t, "huge", onPods, inNamespace("team"), huge)}, 1},
		{"an administrator's huge rules", []*policy.Program{selecting(t, "huge", onPods, huge)}, 1},
		{"large rules of one group", groups, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			others := []*policy.Program{selecting(t, "cluster", onPods), selecting(t, "other", onPods, inNamespace("other"), own(1, 1))}
			got, ready, _, err := Desired(in(append(slices.Clone(c.programs), others...)...))
			if err != nil {
				t.Fatal(err)
			}
			accepted(t, got, discovery.Oldest)
			left := 0
			for _, p := range append(slices.Clone(c.programs), others...) {
				reason := ready[ProgramKey(p)]
				if out := (LeftOut{}); errors.As(reason, &out) {
					left++
				}
				if c.name != "versions" && covered(got, p) != (reason == nil) {
					t.Errorf("%s: %v, in a configuration: %v", p.Key(), reason, covered(got, p))
				}
			}
			if left != c.left || ready[ProgramKey(others[0])] != nil || ready[ProgramKey(others[1])] != nil {
				t.Errorf("%d left out, want %d", left, c.left)
			}
		})
	}
}
