package vapgen

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/constraint"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// The API server applies the translation of a random ClusterPolicy with a random exception to the same requests as Ephor. A wildcard may leave
// cluster-scoped objects to Ephor. An update that changes labels is left out: selectors of the API server also match the old object.
func TestConstraintsMeanTheSame(t *testing.T) {
	g := rand.New(rand.NewPCG(20, 20))
	one := func(list ...string) string { return list[g.IntN(len(list))] }
	some := func(list ...string) string {
		var out []string
		for _, s := range list {
			if g.IntN(2) == 0 {
				out = append(out, s)
			}
		}
		if len(out) == 0 {
			out = append(out, one(list...))
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	filter := func(kinds bool) string {
		var parts []string
		add := func(n int, text string) {
			if g.IntN(n) == 0 {
				parts = append(parts, text)
			}
		}
		if kinds || g.IntN(2) == 0 {
			parts = append(parts, "kinds: "+some("Pod", "Deployment", "Namespace", "Node", `"*"`, "Pod/exec"))
		}
		add(3, "operations: "+some("CREATE", "UPDATE", "DELETE", "CONNECT"))
		add(3, "names: "+some("a", "b"))
		add(6, "name: "+one("a", "b"))
		add(3, "namespaces: "+some("x", "w"))
		add(6, "selector: {matchLabels: {l: '"+one("1", "2")+"'}}")
		add(6, "namespaceSelector: "+one("{matchLabels: {l: '1'}}", "{matchLabels: {l: '2'}}", "{matchExpressions: [{key: l, operator: DoesNotExist}]}"))
		return "{resources: {" + strings.Join(parts, ", ") + "}}"
	}
	block := func(kinds bool) string {
		form := one("any", "all", "any")
		out := filter(kinds)
		if form == "any" && g.IntN(2) == 0 {
			out += ", " + filter(kinds)
		}
		return "{" + form + ": [" + out + "]}"
	}
	translated, matched := 0, 0
	for range 1000 {
		text := `{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p, uid: u}, spec: {background: false, rules: [{name: r, match: ` + block(true)
		if g.IntN(2) == 0 {
			text += ", exclude: " + block(false)
		}
		text += `, validate: {failureAction: Enforce, cel: {generate: true, expressions: [{expression: "true"}]}}}]}}`
		object := yamlOf(t, text)
		p, diags := compile.One(compile.Object{Value: object})
		if diags.HasErrors() {
			continue
		}
		in := Input{Object: object, Resources: known}
		var exempts *policy.Exception
		if g.IntN(3) == 0 {
			exception := `{apiVersion: kyverno.io/v2, kind: PolicyException, metadata: {name: e, namespace: x}, spec: {exceptions: [{policyName: p, ruleNames: [r]}], match: ` + block(false) + `}}`
			e, diags := compile.OneException(compile.Object{Value: yamlOf(t, exception)})
			if diags.HasErrors() {
				continue
			}
			in.Exceptions, exempts = []*policy.Exception{e}, e
			text += "\n" + exception
		}
		out, err := Of("kyverno.io/v1", "ClusterPolicy").Translate(in)
		if err != nil {
			t.Fatal(text, err)
		}
		if out.Policy == nil {
			continue
		}
		translated++
		native, diags := constraint.Compile(out.Policy.(*admissionregistrationv1.ValidatingAdmissionPolicy).Spec.MatchConstraints, "", constraint.Options{})
		if diags.HasErrors() {
			t.Fatal(text, diags)
		}
		for range 60 {
			r := requestOf(one, g)
			ephor, err := p.Rules[0].Match(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if ephor && exempts != nil {
				exempt, err := exempts.Match(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				ephor = !exempt
			}
			server, err := native.Match(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if server {
				matched++
			}
			if server != ephor && !(ephor && strings.Contains(text, `kinds: ["*"]`)) {
				t.Fatalf("%s\n%s %s/%s %q in %q: the API server applies it: %v, Ephor: %v", text, r.Operation, r.GVR.Resource, r.Subresource, r.Name, r.Namespace, server, ephor)
			}
		}
	}
	if translated < 100 || matched < 1000 {
		t.Errorf("%d policies are translated, and %d requests matched", translated, matched)
	}
}

// requestOf returns a random request.
func requestOf(one func(...string) string, g *rand.Rand) *policy.Request {
	namespace, labels := one("x", "w", "z"), map[string]any{}
	if l := one("", "1", "2"); l != "" {
		labels["l"] = l
	}
	ofNamespace := map[string]string{"kubernetes.io/metadata.name": namespace}
	if namespace != "z" {
		ofNamespace["l"] = map[string]string{"x": "1", "w": "2"}[namespace]
	}
	name, sub := one("a", "b", "c"), ""
	kind := one("Pod", "Deployment", "Namespace", "Node", "Pod/exec", "Pod/ephemeralcontainers")
	kind, sub, _ = strings.Cut(kind, "/")
	gvk := schema.GroupVersionKind{Version: "v1", Kind: kind}
	if kind == "Deployment" {
		gvk.Group = "apps"
	}
	switch kind {
	case "Node":
		namespace = ""
	case "Namespace":
		name = one("x", "w", "z")
		namespace = name
		labels["kubernetes.io/metadata.name"] = name
	}
	r := &policy.Request{Review: policy.Review{
		Operation: policy.Operation(one("CREATE", "UPDATE", "DELETE")), GVK: gvk, RequestGVK: gvk,
		GVR: gvk.GroupVersion().WithResource(strings.ToLower(kind) + "s"), Subresource: sub, Namespace: namespace, Name: name, User: &policy.User{Username: "u"},
		ResolveNamespace: func(context.Context) (map[string]string, error) {
			if kind == "Node" || kind == "Namespace" {
				return nil, nil
			}
			return ofNamespace, nil
		},
	}}
	metadata := map[string]any{"name": name, "labels": labels}
	if namespace != "" && kind != "Namespace" {
		metadata["namespace"] = namespace
	}
	doc := value.Of(map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": kind, "metadata": metadata})
	if sub == "exec" {
		r.Operation = policy.Connect
	} else if sub != "" {
		r.Operation = policy.Update
	}
	if r.Operation != policy.Delete {
		r.Object = doc
	}
	if r.Operation == policy.Update || r.Operation == policy.Delete {
		r.OldObject = doc
	}
	return r
}

func yamlOf(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(text, err)
	}
	return out
}
