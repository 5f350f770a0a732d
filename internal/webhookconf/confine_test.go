package webhookconf

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
)

// matchers caches compiled expressions.
var matchers = map[string]matchconditions.Matcher{}

// asked returns the names of the webhooks that the API server calls for a request, according to its own matchers. An error of a condition
// fails the test.
func asked(t testing.TB, c Configurations, r *admission.VersionedAttributes, ownLabels map[string]string) (names []string) {
	t.Helper()
	for _, o := range all(c) {
		if !IsResource(o.GetName()) {
			continue
		}
		for _, w := range webhooksOf(o) {
			sel, err := metav1.LabelSelectorAsSelector(selectorOf(w))
			if err != nil {
				t.Fatal(err)
			}
			if ownLabels != nil && !sel.Matches(labels.Set(ownLabels)) {
				continue
			}
			covered := false
			for _, rule := range w.rules() {
				m := rules.Matcher{Rule: rule, Attr: r.Attributes}
				covered = covered || m.Matches()
			}
			for _, m := range conditionsOf(w) {
				if !covered {
					break
				}
				if matchers[m.Expression] == nil {
					matchers[m.Expression] = matcherOf(m.Name, m.Expression)
				}
				got := matchers[m.Expression].Match(t.Context(), r, nil, nil)
				if got.Error != nil {
					t.Fatalf("%s: %v\n%s", m.Name, got.Error, m.Expression)
				}
				covered = got.Matches
			}
			if covered {
				names = append(names, w.name())
			}
		}
	}
	return names
}

func selectorOf(w anyWebhook) *metav1.LabelSelector {
	if w.validating != nil {
		return w.validating.NamespaceSelector
	}
	return w.mutating.NamespaceSelector
}

// requestFor returns a request for an object in a namespace; place is resource, resource/sub or resource.group/sub.
func requestFor(operation policy.Operation, place, version, namespace, name string, objectLabels map[string]any) (*admission.VersionedAttributes, map[string]string) {
	resource, sub, _ := strings.Cut(place, "/")
	resource, group, _ := strings.Cut(resource, ".")
	meta := object{}
	if name != "" {
		meta["name"] = name
	}
	if objectLabels != nil {
		meta["labels"] = objectLabels
	}
	o := &unstructured.Unstructured{Object: object{"apiVersion": "v1", "kind": "Any", "metadata": meta}}
	gvk := schema.GroupVersionKind{Group: group, Version: version, Kind: "Any"}
	a := admission.NewAttributesRecord(o, nil, gvk, namespace, name, schema.GroupVersionResource{Group: group, Version: version, Resource: resource}, sub,
		admission.Operation(operation), nil, false, &user.DefaultInfo{Name: "u"})
	selected := map[string]string{namespaceName: namespace}
	switch {
	case resource == "namespaces":
		selected = map[string]string{}
		for k, v := range objectLabels {
			selected[k] = v.(string)
		}
	case namespace == "":
		selected = nil // selectors are not evaluated
	}
	return &admission.VersionedAttributes{Attributes: a, VersionedKind: gvk, VersionedObject: admission.NewLazyObject(o)}, selected
}

// TestT4OtherNamespacesAreNotAsked: webhooks of namespaced policies are called only for their namespaces. Webhooks of cluster-wide
// policies are called as if there were no namespaced policies. This holds with every flag and any number of policies.
func TestT4OtherNamespacesAreNotAsked(t *testing.T) {
	const all = cluster + served(`
v1 secrets Secret
v1 events Event
v1 serviceaccounts ServiceAccount
v1 serviceaccounts/token TokenRequest
coordination.k8s.io/v1 leases Lease
`)
	in1 := func(namespace string) func(*policy.Program) {
		return func(p *policy.Program) { p.Kind, p.Namespace = "Policy", namespace }
	}
	var many []*policy.Program
	for i := range 70 { // more different terms than a derived condition can have
		many = append(many, program(fmt.Sprint("own-", i), func(p *policy.Program) {
			in1(fmt.Sprint("many-", i))(p)
			p.Rules[0].Targets = kinds([]string{"Secret", "Service", "Deployment", "Lease", "*"}[i%5] + []string{"", "@CREATE", "@DELETE"}[i%3])
		}))
	}
	type ask struct {
		operation       policy.Operation
		place, space    string
		with, otherwise bool // whether the webhook is called in the namespace of the policy, and in another one
	}
	for _, c := range []struct {
		name     string
		programs []*policy.Program
		asks     []ask
	}{
		{"a kind", []*policy.Program{program("a", nil, "ConfigMap@CREATE"), program("b", in1("team"), "Secret")}, []ask{
			{"CREATE", "secrets", "team", true, false}, {"CREATE", "configmaps", "team", true, true}, {"DELETE", "configmaps", "team", false, false}}},
		{"further operations", []*policy.Program{program("a", nil, "ConfigMap@CREATE"), program("b", in1("team"), "ConfigMap@DELETE")}, []ask{
			{"CREATE", "configmaps", "team", true, true}, {"DELETE", "configmaps", "team", true, false}, {"UPDATE", "configmaps", "team", false, false}}},
		{"a wildcard", []*policy.Program{program("a", nil, "ConfigMap@CREATE", "Namespace"), program("b", in1("team"), "*")}, []ask{
			{"CREATE", "secrets", "team", true, false}, {"CREATE", "configmaps", "team", true, true}, {"CREATE", "leases.coordination.k8s.io", "team", false, false},
			{"UPDATE", "pods/ephemeralcontainers", "team", true, false}, {"CREATE", "namespaces", "", true, true}, {"CREATE", "nodes", "", false, false}}},
		{"reserved kinds beside a wildcard", []*policy.Program{program("a", nil, "*"), program("b", in1("team"), "Lease", "Event@CREATE")}, []ask{
			{"UPDATE", "leases.coordination.k8s.io", "team", true, false}, {"CREATE", "events", "team", true, false}, {"CREATE", "secrets", "team", true, true}}},
		{"a reserved subresource beside a wildcard", []*policy.Program{program("a", nil, "*", "*/*"), program("b", in1("team"), "*/token")}, []ask{
			{"CREATE", "serviceaccounts/token", "team", true, false}, {"CREATE", "pods/exec", "team", true, true}, {"CREATE", "pods/binding", "team", false, false}}},
		{"subresources", []*policy.Program{program("a", nil, "Pod@UPDATE"), program("b", in1("team"), "*/scale", "Pod/*")}, []ask{
			{"UPDATE", "deployments.apps/scale", "team", true, false}, {"CONNECT", "pods/exec", "team", true, false}, {"UPDATE", "pods/ephemeralcontainers", "team", true, true},
			{"UPDATE", "pods", "team", true, true}, {"CREATE", "pods", "team", false, false}}},
		{"two namespaces do not add each other's kinds", []*policy.Program{program("a", in1("other"), "Service"), program("b", in1("team"), "*@CREATE")}, []ask{
			{"CREATE", "secrets", "team", true, false}, {"DELETE", "services", "team", false, true}, {"CREATE", "services", "team", true, true}}},
		{"very many", append([]*policy.Program{program("a", nil, "ConfigMap"), program("b", in1("team"), "Secret")}, many...), []ask{
			{"CREATE", "secrets", "team", true, false}, {"CREATE", "configmaps", "team", true, true}, {"DELETE", "services", "team", false, false}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, derive := range []bool{true, false} {
				input := in(c.programs...)
				input.Settings.Webhook.NamespaceSelector = nil
				input.Resources, input.Options.Derive = discovery.New(all, time.Now), derive
				got, _, _, err := Desired(input)
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range c.asks {
					for space, want := range map[string]bool{a.space: a.with, "other": a.otherwise} {
						if a.space == "" {
							space = ""
						}
						r, selected := requestFor(a.operation, a.place, "v1", space, "n", nil)
						if names := asked(t, got, r, selected); (len(names) == 1) != want {
							t.Errorf("%s %s in %q: asked by %q, derive %v\n%s", a.operation, a.place, space, names, derive, text(got, false))
						}
					}
				}
			}
		})
	}
}

// TestT4NamespacesDoNotMeet: for random policies and requests, the API server calls the same webhooks as without the policies of other
// namespaces.
func TestT4NamespacesDoNotMeet(t *testing.T) {
	yes, no, spared := 0, 0, 0
	for seed := range uint64(60) {
		g := &generator{rand.New(rand.NewPCG(seed, 3))}
		var programs []*policy.Program
		for len(programs) < 4 {
			more, _ := g.programs(t)
			for _, p := range more {
				if p.Name = fmt.Sprint("p", len(programs)); p.Namespace != "" && g.chance(15) {
					p.Settings.TimeoutSeconds = 20
				}
				programs = append(programs, p)
			}
		}
		known := discovery.New(cluster+"v1 pods/resize Pod\nv1 pods/status Pod\nv1 pods/binding Binding\nv1 namespaces/status Namespace!\nrbac.authorization.k8s.io/v1 clusterroles ClusterRole!\n", time.Now)
		desired := func(programs []*policy.Program) Configurations {
			input := in(programs...)
			input.Settings.Webhook.NamespaceSelector = nil
			input.Resources, input.Options.Derive = known, seed%2 == 0
			got, _, _, err := Desired(input)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		together := desired(programs)
		alone := map[string]Configurations{}
		for _, namespace := range []string{"", "x", "y", "z"} {
			alone[namespace] = desired(slices.DeleteFunc(slices.Clone(programs), func(p *policy.Program) bool {
				return p.Namespace != "" && p.Namespace != namespace
			}))
		}
		for _, r := range g.reviews(60) {
			a := r.attributes
			space, selected := a.GetNamespace(), map[string]string{namespaceName: a.GetNamespace()}
			if a.GetResource().Resource == "namespaces" || space == "" {
				space, selected = "", nil
			}
			got, want := asked(t, together, a, selected), asked(t, alone[space], a, selected)
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: in %q asked by %q, without the policies of other namespaces by %q\n%s\nwebhooks:\n%s%s\nalone:\n%s%s", seed, space, got, want, r.text,
					text(together, false), text(together, true), text(alone[space], false), text(alone[space], true))
			}
			switch rest := desiredRules(together, a); {
			case len(got) > 0:
				yes++
			case rest:
				spared++
			default:
				no++
			}
		}
	}
	t.Logf("asked %d times, spared by a condition %d times, not covered by rules %d times", yes, spared, no)
	if yes < 1000 || spared < 100 {
		t.Error("the random policies and requests rarely match: the test proves little")
	}
}

// desiredRules reports whether the rules of some resource webhook cover the request.
func desiredRules(c Configurations, r *admission.VersionedAttributes) bool {
	for _, o := range all(c) {
		for _, w := range webhooksOf(o) {
			for _, rule := range w.rules() {
				if m := (&rules.Matcher{Rule: rule, Attr: r.Attributes}); IsResource(o.GetName()) && m.Matches() {
					return true
				}
			}
		}
	}
	return false
}

// TestT4NamespacesOfTooMuchAreAskedWhole: if the policies of a namespace need a very long expression, webhooks are called for all requests
// in that namespace. Nothing changes for the others.
func TestT4NamespacesOfTooMuchAreAskedWhole(t *testing.T) {
	spaces := []namespaceText{{"long", strings.Repeat("true && ", 3000) + "false"}, {"short", "false"}, {"whole", ""}}
	const want = `(request.resource.resource != "namespaces" || request.resource.group != "") && (` +
		`(has(request.namespace) && request.namespace == "short" && (false)) || (has(request.namespace) && request.namespace in ["long", "whole"]))`
	if got, unconfined := byNamespace(spaces, 1000); got != want || unconfined {
		t.Error(got, unconfined)
	}
	var names []namespaceText
	for i := range 5000 {
		names = append(names, namespaceText{fmt.Sprintf("a-namespace-with-a-name-%d", i), fmt.Sprint(i)})
	}
	if got, unconfined := byNamespace(names, maxNamespaces); len(got) > maxNamespaces+200 || !unconfined {
		t.Errorf("%d bytes, unconfined: %v", len(got), unconfined)
	}
}

// TestT4TooManyNamespaces: if a condition cannot contain the names of all namespaces, webhooks are called for all namespaces, and
// their names are reported to the operator. They are still not called for resources that no policy matches.
func TestT4TooManyNamespaces(t *testing.T) {
	for _, n := range []int{1000, 5000} {
		programs := []*policy.Program{program("a", nil, "ConfigMap")}
		for i := range n {
			programs = append(programs, program("b", func(p *policy.Program) { p.Kind, p.Namespace = "Policy", fmt.Sprintf("a-namespace-of-a-tenant-%d", i) }, "Secret"))
		}
		input := in(programs...)
		input.Settings.Webhook.NamespaceSelector = nil
		input.Resources = discovery.New(cluster+"v1 secrets Secret\n", time.Now)
		got, _, _, err := Desired(input)
		if err != nil {
			t.Fatal(err)
		}
		want := n == 5000
		if named := slices.Equal(got.Unconfined, []string{"validate.kyverno.svc-fail"}); named != want || !want && got.Unconfined != nil {
			t.Errorf("%d namespaces: unconfined are %q", n, got.Unconfined)
		}
		for place, asks := range map[string]bool{"secrets": want, "configmaps": true, "services": false} {
			r, selected := requestFor(policy.Create, place, "v1", "other", "n", nil)
			if names := asked(t, got, r, selected); (len(names) > 0) != asks {
				t.Errorf("%d namespaces: %s in another namespace: asked by %q", n, place, names)
			}
		}
	}
}

// TestT4NamespacedPoliciesCostNoDerivedCondition: a namespaced policy for which no condition can be derived does not change, for other
// namespaces, the condition that is derived from the other policies.
func TestT4NamespacedPoliciesCostNoDerivedCondition(t *testing.T) {
	shared := classicPolicy(t, "p", "match: {any: [{resources: {kinds: [ConfigMap], names: [a]}}]}; "+deny)
	own := classicPolicy(t, "q", "match: {any: [{resources: {kinds: [ConfigMap], annotations: {a: b}}}]}; "+deny)
	own.Kind, own.Namespace = "Policy", "team"
	own.Rules[0].Header.Namespace = "team"
	input := in(shared, own)
	input.Settings.Webhook.NamespaceSelector, input.Options.Derive = nil, true
	got, _, _, err := Desired(input)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		namespace, name string
		want            int
	}{{"other", "a", 1}, {"other", "b", 0}, {"team", "a", 1}, {"team", "b", 1}} {
		r, selected := requestFor(policy.Create, "configmaps", "v1", c.namespace, c.name, nil)
		if names := asked(t, got, r, selected); len(names) != c.want {
			t.Errorf("%s/%s: asked by %q", c.namespace, c.name, names)
		}
	}
}

// TestT4OwnEntries: the webhook of a namespaced policy with match conditions or a timeout is called only in its namespace, and other
// policies keep their timeout.
func TestT4OwnEntries(t *testing.T) {
	own := func(change func(*policy.Program)) *policy.Program {
		return program("own", func(p *policy.Program) {
			p.Kind, p.Namespace = "Policy", "team"
			change(p)
		}, "*")
	}
	for name, p := range map[string]*policy.Program{
		"conditions": own(func(p *policy.Program) {
			p.Settings.MatchConditions = []policy.MatchCondition{{Name: "c", Expression: "true"}}
		}),
		"a timeout": own(func(p *policy.Program) { p.Settings.TimeoutSeconds = 30 }),
	} {
		input := in(program("shared", nil, "ConfigMap"), p)
		input.Settings.Webhook.NamespaceSelector = nil
		got, _, _, err := Desired(input)
		if err != nil {
			t.Fatal(err)
		}
		const shared, mine = "validate.kyverno.svc-fail", "validate.kyverno.svc-fail-finegrained-team-own"
		for _, c := range []struct {
			place, namespace string
			want             string
		}{{"secrets", "team", mine}, {"secrets", "other", ""}, {"configmaps", "other", shared}, {"configmaps", "team", shared + " " + mine}, {"namespaces", "", ""}, {"nodes", "", ""}} {
			r, selected := requestFor(policy.Create, c.place, "v1", c.namespace, "n", nil)
			if names := strings.Join(asked(t, got, r, selected), " "); names != c.want {
				t.Errorf("%s: %s in %q: asked by %q", name, c.place, c.namespace, names)
			}
		}
		for _, w := range validatingOf(got, ResourceValidating).Webhooks {
			if w.Name == shared && *w.TimeoutSeconds != 10 {
				t.Errorf("%s: the shared timeout is %d", name, *w.TimeoutSeconds)
			}
		}
	}
}

// TestT9Namespaces: one webhook is called for each Namespace that a policy may mutate, whatever its name label holds.
func TestT9Namespaces(t *testing.T) {
	mutate := program("m", func(p *policy.Program) { p.Rules[0].Stage = policy.StageMutate }, "Namespace")
	for _, c := range []struct {
		webhooks string // the key of the ConfigMap
		name     string
		label    string
		want     int
	}{
		{name: "a", label: "a", want: 1},
		{name: "kube-system", label: "kube-system"},
		{name: "kyverno", label: "kyverno"},
		{label: "", want: 1},
		{label: "other", want: 1},
		{label: "kube-system", want: 1},
		{label: "kyverno", want: 1},
		{webhooks: `{"namespaceSelector":{}}`, name: "kube-system", label: "kube-system", want: 1},
		{webhooks: `{"namespaceSelector":{}}`, label: "kyverno", want: 1},
		{webhooks: `{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"a"}}}`, name: "a", label: "a", want: 1},
		{webhooks: `{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"a"}}}`, name: "b", label: "b"},
		{webhooks: `{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"a"}}}`, label: "kyverno"},
		{webhooks: `{"namespaceSelector":{"matchLabels":{"judge":"me"}}}`, label: "kyverno"},
		{webhooks: `{"namespaceSelector":{"matchExpressions":[{"key":"judge","operator":"DoesNotExist"}]}}`, label: "kyverno", want: 1},
	} {
		for _, derive := range []bool{true, false} {
			input := in(mutate)
			data := map[string]string{}
			if c.webhooks != "" {
				data["webhooks"] = c.webhooks
			}
			input.Settings, input.Options.Derive = settingsOf(t, data), derive
			got, _, _, err := Desired(input)
			if err != nil {
				t.Fatal(err)
			}
			given := object{}
			if c.label != "" {
				given[namespaceName] = c.label
			}
			r, selected := requestFor(policy.Create, "namespaces", "v1", c.name, c.name, given)
			if names := asked(t, got, r, selected); len(names) != c.want {
				t.Errorf("%+v: asked by %q", c, names)
			}
		}
	}
}

// TestT13Resize: one of our own webhooks is called for pods/resize if policies match Pods. Namespaced policies affect only their
// namespaces, and the rules in the configurations with Kyverno's names do not change.
func TestT13Resize(t *testing.T) {
	const known = cluster + served("v1 pods/resize Pod\n")
	team := func(p *policy.Program) { p.Kind, p.Namespace = "Policy", "team" }
	const own, shared = "resize.validate.kyverno.svc-fail", "validate.kyverno.svc-fail"
	for _, c := range []struct {
		name           string
		programs       []*policy.Program
		without        bool // the API server does not serve pods/resize
		inTeam, others string
	}{
		{name: "a policy on Pods", programs: []*policy.Program{program("a", nil, "Pod")}, inTeam: own, others: own},
		{name: "one that does not ask for updates", programs: []*policy.Program{program("a", nil, "Pod@CREATE")}},
		{name: "one that excludes updates", programs: []*policy.Program{program("a", func(p *policy.Program) { p.Rules[0].Excludes = kinds("Pod@UPDATE") }, "Pod")}},
		{name: "other kinds", programs: []*policy.Program{program("a", nil, "Deployment", "Pod/exec")}},
		{name: "not served", programs: []*policy.Program{program("a", nil, "Pod")}, without: true},
		{name: "a policy that names it", programs: []*policy.Program{program("a", nil, "Pod", "Pod/resize")}, inTeam: shared, others: shared},
		{name: "a namespaced policy", programs: []*policy.Program{program("a", team, "Pod")}, inTeam: own},
		{name: "both", programs: []*policy.Program{program("a", team, "Pod"), program("b", nil, "Pod")}, inTeam: own, others: own},
		{name: "a namespaced policy that names it", programs: []*policy.Program{program("a", team, "Pod/*"), program("b", nil, "Pod")}, inTeam: shared, others: own},
		{name: "all subresources", programs: []*policy.Program{program("a", nil, "*/*"), program("b", team, "Pod")}, inTeam: shared, others: shared},
	} {
		input := in(c.programs...)
		input.Settings.Webhook.NamespaceSelector = nil
		if input.Resources = discovery.New(known, time.Now); c.without {
			input.Resources = discovery.New(cluster, time.Now)
		}
		got, _, _, err := Desired(input)
		if err != nil {
			t.Fatal(err)
		}
		for namespace, want := range map[string]string{"team": c.inTeam, "other": c.others} {
			r, selected := requestFor(policy.Update, "pods/resize", "v1", namespace, "n", nil)
			if names := strings.Join(asked(t, got, r, selected), " "); names != want {
				t.Errorf("%s: in %s asked by %q, want %q", c.name, namespace, names, want)
			}
		}
		if extra := validatingOf(got, ExtraValidating); extra != nil && *extra.Webhooks[0].FailurePolicy != admissionv1.Fail {
			t.Errorf("%s: %v", c.name, extra.Webhooks[0])
		}
	}
}

func settingsOf(t testing.TB, data map[string]string) *settings.Settings {
	t.Helper()
	s, diags := settings.Parse(data)
	if len(diags) > 0 {
		t.Fatal(diags.Error())
	}
	return s
}
