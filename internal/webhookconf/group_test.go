package webhookconf

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/policy"
)

var (
	grouped      = &policy.Endpoint{Kinds: []string{"Grouped"}, Name: "g.validate.svc", Path: "/g", ByName: true, Once: true}
	groupedOnes  = &policy.Endpoint{Kinds: []string{"NamespacedGrouped"}, Name: "ng.validate.svc", Path: "/ng", ByName: true, Once: true}
	groupChanges = &policy.Endpoint{Kinds: []string{"Grouped"}, Name: "g.mutate.svc", Path: "/g/change", ByName: true, Once: true, Mutating: true}
)

// selecting returns a policy that selects with the fields of a webhook. constraints is the MatchResources of an admission policy, in YAML.
func selecting(t *testing.T, name, constraints string, change ...func(*policy.Program, *policy.Webhook)) *policy.Program {
	t.Helper()
	var m admissionv1.MatchResources
	if err := yaml.Unmarshal([]byte(constraints), &m); err != nil {
		t.Fatal(err)
	}
	sel := &policy.WebhookSelection{NamespaceSelector: m.NamespaceSelector, ObjectSelector: m.ObjectSelector}
	for _, r := range m.ResourceRules {
		sel.Rules = append(sel.Rules, r.RuleWithOperations)
	}
	p := &policy.Program{Kind: "Grouped", Name: name, Settings: policy.Settings{Admission: true}}
	w := policy.Webhook{Endpoint: grouped, Selection: sel}
	for _, c := range change {
		c(p, &w)
	}
	p.Webhooks = []policy.Webhook{w}
	return p
}

// Policies with equal selectors share a webhook that names them; conditions, a timeout or an exact match require a separate webhook.
func TestGroups(t *testing.T) {
	const pods = `{resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]}`
	const staging = `{namespaceSelector: {matchLabels: {stage: x}}, resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}`
	ignore := func(p *policy.Program, _ *policy.Webhook) { p.Settings.FailurePolicy = policy.Ignore }
	inTeam := func(p *policy.Program, w *policy.Webhook) {
		p.Kind, p.Namespace, w.Endpoint = "NamespacedGrouped", "team", groupedOnes
	}
	conditions := func(_ *policy.Program, w *policy.Webhook) {
		w.Own, w.Conditions = policy.OwnConditions, []policy.MatchCondition{{Name: "a", Expression: "true"}, {Name: "a", Expression: "false"}}
	}
	timeout := func(_ *policy.Program, w *policy.Webhook) { w.Own, w.Selection.TimeoutSeconds = policy.OwnTimeout, 40 }
	for _, c := range []struct {
		name     string
		programs []*policy.Program
		options  func(*Options)
		want     string
	}{
		{
			name:     "a shared webhook names its policies; rules once, sorted",
			programs: []*policy.Program{selecting(t, "b", pods), selecting(t, "a", `{resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}, `+pods[len("{resourceRules: ["):])},
			want: `g.validate.svc-fail /g/a/b Fail 10
  "" v1 pods * CREATE,UPDATE
  "apps" v1 deployments * CREATE
`,
		},
		{
			name:     "one for each failurePolicy",
			programs: []*policy.Program{selecting(t, "a", pods), selecting(t, "b", pods, ignore)},
			want: `g.validate.svc-fail /g/a Fail 10
  "" v1 pods * CREATE,UPDATE
g.validate.svc-ignore /g/b Ignore 10
  "" v1 pods * CREATE,UPDATE
`,
		},
		{
			name:     "one for each pair of selectors",
			programs: []*policy.Program{selecting(t, "a", pods), selecting(t, "b", staging)},
			want: `g.validate.svc-fail-HASH /g/a Fail 10
  "" v1 pods * CREATE,UPDATE
g.validate.svc-fail-HASH /g/b Fail 10
  "" v1 pods * CREATE
`,
		},
		{
			name:     "separate webhooks, which do not count as groups",
			programs: []*policy.Program{selecting(t, "a", pods), selecting(t, "b", staging, conditions), selecting(t, "c", staging, timeout, ignore)},
			want: `g.validate.svc-fail /g/a Fail 10
  "" v1 pods * CREATE,UPDATE
g.validate.svc-fail-finegrained-b /g/b Fail 10 if a
  "" v1 pods * CREATE
g.validate.svc-ignore-finegrained-c /g/c Ignore 30
  "" v1 pods * CREATE
`,
		},
		{
			name:     "namespaced policies select their namespace",
			programs: []*policy.Program{selecting(t, "a", staging, inTeam), selecting(t, "b", pods, inTeam), selecting(t, "c", pods, inTeam, conditions)},
			want: `ng.validate.svc-fail /ng/a/b Fail 10
  "" v1 pods * CREATE
  "" v1 pods * CREATE,UPDATE
ng.validate.svc-fail-finegrained-team-c /ng/c Fail 10 if a
  "" v1 pods * CREATE,UPDATE
`,
		},
		{
			name: "lists that the API server refuses are normalized; rules that cover nothing are left out",
			programs: []*policy.Program{selecting(t, "a", `{resourceRules: [
				{apiGroups: ["*", apps], apiVersions: [v1, "", v1], operations: ["*", CREATE], resources: [pods, "pods/*", pods/exec, ""]},
				{apiGroups: [""], apiVersions: [v1], operations: [], resources: [secrets]}, {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: []}]}`)},
			want: `g.validate.svc-fail /g/a Fail 10
  "*" v1 pods,pods/* * *
`,
		},
		{
			name:     "wildcards leave out reserved resources",
			programs: []*policy.Program{selecting(t, "a", `{resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE], resources: ["*/*", "*", leases]}]}`)},
			want: `g.validate.svc-fail /g/a Fail 10 if ephor.dev/not-by-wildcard
  "*" * */* * CREATE
`,
		},
		{
			name:     "bootstrap resources, where a flag excludes them",
			programs: []*policy.Program{selecting(t, "a", pods), selecting(t, "b", pods, ignore)},
			options:  func(o *Options) { o.ExcludeBootstrap, o.Derive, o.TimeoutSeconds = true, true, 15 },
			want: `g.validate.svc-fail /g/a Fail 10 if kyverno-exclude-bootstrap-resources
  "" v1 pods * CREATE,UPDATE
g.validate.svc-ignore /g/b Ignore 10
  "" v1 pods * CREATE,UPDATE
`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			input := in(c.programs...)
			if c.options != nil {
				c.options(&input.Options)
			}
			got, ready, _, err := Desired(input)
			if err != nil {
				t.Fatal(err)
			}
			for key, err := range ready {
				if err != nil {
					t.Errorf("%s is not ready: %v", key, err)
				}
			}
			if text := hashes(text(got, false)); text != c.want {
				t.Errorf("got\n%s\nwant\n%s", text, c.want)
			}
		})
	}
}

// hashes replaces the hashes in the names of webhooks, which vary, by HASH.
func hashes(text string) string {
	var b strings.Builder
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(line, " ")
		if i := strings.LastIndex(name, "-"); i >= 0 && len(name)-i == 9 && !seen[name] {
			seen[name] = true
			line = name[:i] + "-HASH " + rest
		}
		b.WriteString(line)
	}
	return b.String()
}

// The selectors of a policy and of the ConfigMap both apply, and the namespace of the installation is excluded.
func TestGroupSelectors(t *testing.T) {
	input := in(selecting(t, "a", `{namespaceSelector: {matchLabels: {a: c, d: e}}, objectSelector: {matchExpressions: [{key: x, operator: Exists}]},
		resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods], scope: Namespaced}]}`,
		func(_ *policy.Program, w *policy.Webhook) { w.Own, w.Selection.Exact = policy.OwnMatchPolicy, true }))
	input.Options.AdmissionReports = false
	input.Settings.Webhook.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"o": "p"}}
	got, _, _, err := Desired(input)
	if err != nil {
		t.Fatal(err)
	}
	w := validatingOf(got, ResourceValidating).Webhooks[0]
	text, err := json.Marshal([]any{w.NamespaceSelector, w.ObjectSelector, w.MatchPolicy, w.SideEffects, w.Rules[0].Scope})
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"matchLabels":{"a":"c","d":"e"},"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["kyverno"]},{"key":"a","operator":"In","values":["b"]}]},` +
		`{"matchLabels":{"o":"p"},"matchExpressions":[{"key":"x","operator":"Exists"}]},"Exact","NoneOnDryRun","Namespaced"]`
	if string(text) != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

// A selector that the API server would reject makes one policy not ready, and does not affect the others.
func TestGroupsThatCannotBeWritten(t *testing.T) {
	const rules = `resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]`
	for _, bad := range []string{
		`{namespaceSelector: {matchExpressions: [{key: a, operator: In}]}, ` + rules + `}`,
		`{objectSelector: {matchLabels: {"a b": c}}, ` + rules + `}`,
		`{}`,
	} {
		got, ready, _, err := Desired(in(selecting(t, "bad", bad), selecting(t, "good", "{"+rules+"}")))
		if err != nil || ready["Grouped/bad"] == nil || ready["Grouped/good"] != nil {
			t.Errorf("%s: %v, %v", bad, ready, err)
		}
		if text := text(got, false); !strings.HasPrefix(text, "g.validate.svc-fail /g/good ") {
			t.Errorf("%s: %s", bad, text)
		}
	}
}

// Names of webhooks are unique, even if endpoints share a name, or joining a namespace and a name results in another name.
func TestGroupNames(t *testing.T) {
	alike := &policy.Endpoint{Kinds: []string{"NamespacedGrouped"}, Name: grouped.Name, Path: "/ng", ByName: true, Once: true}
	constraints := `{resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}`
	own := func(_ *policy.Program, w *policy.Webhook) { w.Own = policy.OwnTimeout }
	inTeam := func(p *policy.Program, w *policy.Webhook) {
		p.Kind, p.Namespace, w.Endpoint = "NamespacedGrouped", "team", alike
	}
	got, _, _, err := Desired(in(
		selecting(t, "a", `{namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [team]}]}, `+constraints[1:]),
		selecting(t, "a", constraints, inTeam), selecting(t, "team-b", constraints, own), selecting(t, "b", constraints, inTeam, own)))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range got.Validating {
		if !IsResource(c.Name) {
			continue
		}
		for _, w := range c.Webhooks {
			if names[w.Name] {
				t.Errorf("two webhooks are named %s", w.Name)
			}
			names[w.Name] = true
		}
	}
	if len(names) != 4 {
		t.Errorf("there are the webhooks %v", names)
	}
}

// Groups that mutate are in the mutating configuration, together with the webhooks of other families.
func TestMutatingGroups(t *testing.T) {
	p := selecting(t, "a", `{resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}`)
	p.Webhooks = append(p.Webhooks, policy.Webhook{Endpoint: groupChanges, Selection: p.Webhooks[0].Selection})
	classic := program("m", func(p *policy.Program) { p.Rules[0].Stage = policy.StageMutate }, "ConfigMap")
	got, _, _, err := Desired(in(p, classic))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, w := range mutatingOf(got, ResourceMutating).Webhooks {
		list = append(list, fmt.Sprint(w.Name, " ", *w.ClientConfig.Service.Path, " ", *w.ReinvocationPolicy))
	}
	if text := strings.Join(list, "\n"); text != "g.mutate.svc-fail /g/change/a Never\nmutate.kyverno.svc-fail /mutate/fail IfNeeded" {
		t.Error(text)
	}
	if text := text(got, false); !strings.HasPrefix(text, "g.validate.svc-fail /g/a ") {
		t.Error(text)
	}
}

// A Namespace without a name cannot choose a label that keeps a mutating policy from it: another webhook of the group is called then.
func TestNamelessNamespacesOfGroups(t *testing.T) {
	mutating := func(_ *policy.Program, w *policy.Webhook) { w.Endpoint = groupChanges }
	own := func(_ *policy.Program, w *policy.Webhook) {
		w.Own, w.Conditions = policy.OwnConditions, []policy.MatchCondition{{Name: "a", Expression: "true"}}
	}
	inTeam := func(p *policy.Program, _ *policy.Webhook) { p.Kind, p.Namespace = "NamespacedGrouped", "team" }
	const created = `{resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [namespaces], scope: Cluster}]}`
	got, _, _, err := Desired(in(
		selecting(t, "a", created, mutating), selecting(t, "b", `{resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}`, mutating),
		selecting(t, "c", created, mutating, own),
		selecting(t, "d", `{resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [namespaces]}]}`, mutating, own),
		selecting(t, "e", created, mutating, inTeam), selecting(t, "f", created),
	))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, w := range mutatingOf(got, ExtraMutating).Webhooks {
		list = append(list, fmt.Sprint(w.Name, " ", *w.ClientConfig.Service.Path, " ", *w.ReinvocationPolicy, " ", w.Rules[0].Resources, w.Rules[0].Operations, " ", len(w.NamespaceSelector.MatchExpressions)))
		condition := w.MatchConditions[len(w.MatchConditions)-1]
		for label, want := range map[string]bool{"": false, "free": false, "kyverno": true} {
			namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "x-"}}}
			if label != "" {
				namespace.SetLabels(map[string]string{namespaceName: label})
			}
			gvk := schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
			a := admission.NewAttributesRecord(namespace, nil, gvk, "", "", gvk.GroupVersion().WithResource("namespaces"), "", admission.Create, nil, false, &user.DefaultInfo{Name: "u"})
			asked := matcherOf(condition.Name, condition.Expression).Match(t.Context(), &admission.VersionedAttributes{Attributes: a, VersionedObject: admission.NewLazyObject(namespace), VersionedKind: gvk}, nil, nil)
			if condition.Name != NamelessCondition || asked.Error != nil || asked.Matches != want {
				t.Errorf("%s, label %q: asked %v (%v), want %v", w.Name, label, asked.Matches, asked.Error, want)
			}
		}
	}
	if text := hashes(strings.Join(list, "\n")); text != "namespaces.g.mutate.svc-fail-HASH /g/change/a/b Never [namespaces] [CREATE] 0\nnamespaces.g.mutate.svc-fail-finegrained-c /g/change/c Never [namespaces] [CREATE] 0" {
		t.Error(text)
	}
}
