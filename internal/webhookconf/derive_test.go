package webhookconf

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family/classic"
	"ephor.invalid/ephor/internal/policy"
)

const labelsPrelude = `[(object == null || request.operation == "DELETE") && oldObject != null ? oldObject : object].map(o, o != null && has(o.metadata) && ` +
	`o.metadata != null && has(o.metadata.labels) && o.metadata.labels != null ? o.metadata.labels : {}).exists(labels, `

const (
	pattern = `validate: {message: m, pattern: {metadata: {labels: {a: "?*"}}}}`
	deny    = `validate: {message: m, deny: {}}`
	patch   = `mutate: {patchStrategicMerge: {metadata: {labels: {a: b}}}}`
)

// classicPolicy compiles a policy whose rules are given as `match; action` in flow style.
func classicPolicy(t testing.TB, name string, rules ...string) *policy.Program {
	t.Helper()
	text := "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: " + name + "}\nspec:\n  background: false\n  rules:\n"
	for i, r := range rules {
		text += fmt.Sprintf("  - name: r%d\n", i)
		for part := range strings.SplitSeq(r, "; ") {
			text += "    " + part + "\n"
		}
	}
	p, diags := compile.One(compile.Object{Value: yamlMap(t, text)})
	if diags.HasErrors() {
		t.Fatal(diags.Error())
	}
	return p
}

func yamlMap(t testing.TB, text string) map[string]any {
	t.Helper()
	return roundTrip(t, []byte(text))
}

// TestDerivedCondition checks the text of the condition, and when there is none.
func TestDerivedCondition(t *testing.T) {
	match := func(resources string) string {
		return "match: {any: [{resources: {kinds: [ConfigMap], " + resources + "}}]}"
	}
	many := make([]string, 65)
	for i := range many {
		many[i] = match(fmt.Sprintf("names: [n%d]", i)) + "; " + deny
	}
	for _, c := range []struct {
		name     string
		rules    [][]string // of each policy
		mutating bool
		protects bool
		want     string
	}{
		{name: "names and namespaces; an object without a name may come to have it", rules: [][]string{{match("names: [a, b], namespaces: [x]") + "; " + deny}},
			want: `(!has(request.name) || request.name in ["a", "b"]) && (has(request.namespace) && request.namespace == "x" || request.resource.resource == "namespaces")`},
		{name: "one policy without literals ends the derivation", rules: [][]string{{match("names: [a]") + "; " + deny}, {match("annotations: {a: b}") + "; " + deny}}},
		{name: "a wildcard gives no literal", rules: [][]string{{match(`names: ["a*"]`) + "; " + deny}}},
		{name: "labels", rules: [][]string{{match("selector: {matchLabels: {app: web}, matchExpressions: [{key: tier, operator: NotIn, values: [a, b]}, {key: x, operator: DoesNotExist}]}") + "; " + deny}},
			want: labelsPrelude + `!("tier" in labels && labels["tier"] in ["a", "b"]) && !("x" in labels) && ("app" in labels && labels["app"] == "web"))`},
		{name: "a pattern is not evaluated on DELETE; the narrower term of another policy is redundant",
			rules: [][]string{{match("") + "; " + pattern}, {match("namespaces: [x]") + "; " + pattern}},
			want:  `request.operation in ["CONNECT", "CREATE", "UPDATE"]`},
		{name: "no narrower than the rules of the webhook", rules: [][]string{{match("operations: [CREATE]") + "; " + deny}}},
		{name: "different operations in different namespaces", rules: [][]string{{match("operations: [DELETE], namespaces: [x]") + "; " + deny}, {match("operations: [CREATE]") + "; " + deny}},
			want: `((has(request.namespace) && request.namespace == "x" || request.resource.resource == "namespaces") && request.operation in ["DELETE"]) || request.operation in ["CREATE"]`},
		{name: "subjects", rules: [][]string{{"match: {any: [{resources: {kinds: [ConfigMap]}, subjects: [{kind: User, name: jane}, {kind: Group, name: devs}, {kind: ServiceAccount, name: s, namespace: ns}]}]}; " + deny}},
			want: `(has(request.userInfo.username) && request.userInfo.username in ["jane", "system:serviceaccount:ns:s"] || has(request.userInfo.groups) && ("devs" in request.userInfo.groups))`},
		{name: "exclude", rules: [][]string{{match("") + "; exclude: {any: [{resources: {namespaces: [x, z]}}, {resources: {annotations: {a: b}}}]}; " + deny}},
			want: `!(request.resource.resource != "namespaces" && has(request.namespace) && request.namespace in ["x", "z"])`},
		{name: "more than 64", rules: [][]string{many}},
		{name: "64 of them", rules: [][]string{many[:64]}, want: "ok"},
		{name: "generate", rules: [][]string{{match("names: [a]") + "; generate: {apiVersion: v1, kind: Secret, name: made, namespace: x, data: {}}"}}},
		{name: "mutate-existing", rules: [][]string{{match("names: [a]") + "; mutate: {targets: [{apiVersion: v1, kind: Secret, name: s, namespace: x}], patchStrategicMerge: {data: {a: b}}}"}}},
		{name: "one mutate rule; labels may still be set by another webhook", mutating: true, rules: [][]string{{match("names: [a], selector: {matchLabels: {a: b}}") + "; " + patch}},
			want: `(!has(request.name) || request.name == "a")`},
		{name: "two mutate rules", mutating: true, rules: [][]string{{match("names: [a]") + "; " + patch}, {match("names: [b]") + "; " + patch}}},
		{name: "the webhook is called for protected objects", protects: true, rules: [][]string{{match("names: [a]") + "; " + deny}},
			want: `((!has(request.name) || request.name == "a")) || ` + protected},
	} {
		t.Run(c.name, func(t *testing.T) {
			input := in()
			for i, rules := range c.rules {
				input.Programs = append(input.Programs, classicPolicy(t, fmt.Sprint("p", i), rules...))
			}
			input.Options.Derive, input.Options.Protects = true, c.protects
			got, _, _, err := Desired(input)
			if err != nil {
				t.Fatal(err)
			}
			webhooks := webhooksOf(validatingOf(got, ResourceValidating))
			if c.mutating {
				webhooks = webhooksOf(mutatingOf(got, ResourceMutating))
			}
			expression := ""
			for _, m := range conditionsOf(webhooks[0]) {
				if m.Name == DerivedCondition {
					expression = m.Expression
				}
			}
			if expression != c.want && (c.want != "ok" || expression == "") {
				t.Errorf("got\n%s\nwant\n%s", expression, c.want)
			}
			input.Options.Derive = false
			got, _, _, _ = Desired(input)
			if webhooks := webhooksOf(validatingOf(got, ResourceValidating)); len(webhooks) > 0 && len(conditionsOf(webhooks[0])) > 0 {
				t.Error("there is a condition, although it is switched off")
			}
		})
	}
}

// A policy with its own match conditions gets no derived condition.
func TestFineGrainedWebhooksDeriveNothing(t *testing.T) {
	p := classicPolicy(t, "p", "match: {any: [{resources: {kinds: [ConfigMap], names: [a]}}]}; "+deny)
	p.Settings.MatchConditions = []policy.MatchCondition{{Name: "mine", Expression: "true"}}
	p.Webhooks = classic.Webhooks(p)
	input := in(p)
	input.Options.Derive = true
	got, _, _, _ := Desired(input)
	if c := conditionsOf(webhooksOf(validatingOf(got, ResourceValidating))[0]); len(c) != 1 || c[0].Name != "mine" {
		t.Errorf("conditions: %v", c)
	}
}

// TestProtectedObjects: the term for protected objects is true if the new or the old object is protected, and false for others.
func TestProtectedObjects(t *testing.T) {
	m := matcherOf(DerivedCondition, "(request.name == \"other\") || "+protected)
	ours := &unstructured.Unstructured{Object: object{"metadata": object{"labels": object{"app.kubernetes.io/managed-by": "kyverno"}}}}
	theirs := &unstructured.Unstructured{Object: object{"metadata": object{"labels": object{"app.kubernetes.io/managed-by": "helm"}}}}
	for _, c := range []struct {
		object, old *unstructured.Unstructured
		want        bool
	}{{ours, nil, true}, {theirs, nil, false}, {nil, ours, true}, {theirs, ours, true}, {nil, nil, false}} {
		r := reviewOf(c.object, c.old)
		if got := m.Match(t.Context(), r, nil, nil); got.Error != nil || got.Matches != c.want {
			t.Errorf("%v, %v: %v %v", c.object, c.old, got.Matches, got.Error)
		}
	}
}

func reviewOf(object, old *unstructured.Unstructured) *admission.VersionedAttributes {
	a := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "x", "a",
		schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "", admission.Update, nil, false, &user.DefaultInfo{Name: "u"})
	out := &admission.VersionedAttributes{Attributes: a, VersionedKind: a.GetKind()}
	if object != nil {
		out.VersionedObject = admission.NewLazyObject(object)
	}
	if old != nil {
		out.VersionedOldObject = admission.NewLazyObject(old)
	}
	return out
}

// BenchmarkCondition measures the cost of a condition for the API server in each request. Most of it is the conversion of the object to
// CEL, whatever the expression.
func BenchmarkCondition(b *testing.B) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "x", Labels: map[string]string{"app": "web"}}}
	for i := range 3 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: "nginx", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}})
	}
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	a := admission.NewAttributesRecord(pod, nil, gvk, "x", "a", schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "", admission.Create, nil, false, &user.DefaultInfo{Name: "u"})
	r := &admission.VersionedAttributes{Attributes: a, VersionedObject: admission.NewLazyObject(pod), VersionedKind: gvk}
	for _, c := range []struct{ name, expression string }{
		{"operations", `request.operation in ["CONNECT", "CREATE", "UPDATE"]`},
		{"labels", labelsPrelude + `("app" in labels && labels["app"] == "web"))`},
		{"reserved", (&namedResources{}).condition()},
	} {
		b.Run(c.name, func(b *testing.B) {
			m := matcherOf(DerivedCondition, c.expression)
			b.ReportAllocs()
			for b.Loop() {
				if got := m.Match(b.Context(), r, nil, nil); !got.Matches || got.Error != nil {
					b.Fatal(got)
				}
			}
		})
	}
}
