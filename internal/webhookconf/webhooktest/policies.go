package webhooktest

import (
	"fmt"
	"strings"
)

// maxPolicies is the maximum number of policies that Policies returns.
const maxPolicies = 12

// Policies returns policies whose fields depend on the data. Each has another name, which begins with random.
func Policies(data []byte) (out []map[string]any) {
	s := &source{data: data}
	for n := range 1 + s.number(maxPolicies) {
		out = append(out, s.policy(n))
	}
	return out
}

// source makes choices from data; without further data it always chooses the first possibility.
type source struct{ data []byte }

// number returns a number below n.
func (s *source) number(n int) int {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return int(b) % n
}

func (s *source) rarely() bool { return s.number(6) == 5 }

func pick[T any](s *source, list ...T) T { return list[s.number(len(list))] }

// several returns up to n of the values, possibly one repeatedly.
func several[T any](s *source, n int, list ...T) []any {
	out := []any{}
	for range 1 + s.number(n) {
		out = append(out, pick(s, list...))
	}
	if s.number(20) == 19 {
		return []any{}
	}
	return out
}

func (s *source) policy(n int) map[string]any {
	name := fmt.Sprint("random-", n)
	switch s.number(12) {
	case 9:
		name = "random." + name
	case 10:
		name += strings.Repeat("-long", 40)
	case 11:
		name = "random-team-" + name // joined with a namespace, names may be equal
	}
	meta := map[string]any{"name": name, "generation": int64(1)}
	switch kind := pick(s, "NamespacedValidatingPolicy", "ValidatingPolicy", "Policy", "ClusterPolicy", "NamespacedMutatingPolicy", "MutatingPolicy",
		"NamespacedGeneratingPolicy", "GeneratingPolicy", "NamespacedImageValidatingPolicy", "ImageValidatingPolicy"); kind {
	case "Policy", "ClusterPolicy":
		if kind == "Policy" {
			meta["namespace"] = pick(s, "team", "other", "a.b")
		}
		return map[string]any{"apiVersion": "kyverno.io/v1", "kind": kind, "metadata": meta, "spec": s.classic()}
	default:
		if strings.HasPrefix(kind, "Namespaced") {
			meta["namespace"] = pick(s, "team", "other", "random")
		}
		return map[string]any{"apiVersion": "policies.kyverno.io/v1", "kind": kind, "metadata": meta, "spec": s.cel(kind)}
	}
}

// classic returns the spec of a policy of kyverno.io.
func (s *source) classic() map[string]any {
	rule := func(n int) map[string]any {
		resources := map[string]any{"kinds": several(s, 3, "Pod", "ConfigMap", "*", "*/*", "Pod/exec", "Pod/*", "*/scale", "Deployment", "apps/v1/*", "Namespace", "Nothing", "v1/Secret", "autoscaling/v1/HorizontalPodAutoscaler", "")}
		if s.rarely() {
			resources["operations"] = several(s, 3, "CREATE", "FOO", "create", "DELETE", "*", "")
		}
		if s.rarely() {
			resources["namespaces"] = several(s, 3, "team", "default", "te*", "\"", "// x", "ü", "")
		}
		if s.rarely() {
			resources["names"] = several(s, 3, "a", "b*", "\"a\\", "\n", "")
		}
		if s.rarely() {
			resources["selector"] = s.selector()
		}
		action := pick(s,
			map[string]any{"validate": map[string]any{"failureAction": "Enforce", "message": "m", "deny": map[string]any{}}},
			map[string]any{"mutate": map[string]any{"patchStrategicMerge": map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}}}},
			map[string]any{"generate": map[string]any{"apiVersion": "v1", "kind": pick(s, "ConfigMap", "Nothing"), "name": "n", "namespace": "team", "data": map[string]any{}}},
		)
		block := map[string]any{pick(s, "any", "all"): []any{map[string]any{"resources": resources}}}
		out := map[string]any{"name": fmt.Sprint("r", n), "match": block}
		if s.rarely() {
			out["exclude"] = map[string]any{"any": []any{map[string]any{"resources": map[string]any{"kinds": several(s, 2, "Pod", "*", "Secret"), "operations": several(s, 2, "CREATE", "FOO")}}}}
		}
		for k, v := range action {
			out[k] = v
		}
		return out
	}
	spec := map[string]any{"background": false, "rules": []any{rule(0), rule(1)}}
	if s.rarely() {
		spec["failurePolicy"] = pick(s, "Fail", "Ignore", "Foo")
	}
	if s.number(3) == 2 {
		w := map[string]any{"matchConditions": s.conditions()}
		if s.rarely() {
			w["timeoutSeconds"] = pick[int64](s, 5, 30, 31, 0, -1)
		}
		spec["webhookConfiguration"] = w
	}
	return spec
}

// cel returns the spec of a policy of policies.kyverno.io.
func (s *source) cel(kind string) map[string]any {
	constraints := map[string]any{"resourceRules": s.rules()}
	if s.rarely() {
		constraints["excludeResourceRules"] = s.rules()
	}
	if s.rarely() {
		constraints["matchPolicy"] = pick(s, "Exact", "Equivalent", "Foo")
	}
	if s.rarely() {
		constraints["namespaceSelector"] = s.selector()
	}
	if s.rarely() {
		constraints["objectSelector"] = s.selector()
	}
	spec := map[string]any{"matchConstraints": constraints}
	switch {
	case strings.HasSuffix(kind, "MutatingPolicy"):
		spec["mutations"] = []any{map[string]any{"patchType": "ApplyConfiguration", "applyConfiguration": map[string]any{"expression": `Object{metadata: Object.metadata{labels: {"a": "b"}}}`}}}
	case strings.HasSuffix(kind, "GeneratingPolicy"):
		spec["generate"] = []any{map[string]any{"expression": `generator.Apply("team", [])`}}
	case strings.HasSuffix(kind, "ImageValidatingPolicy"):
		spec["matchImageReferences"] = []any{map[string]any{"glob": "*"}}
		spec["attestors"] = []any{}
		spec["validations"] = []any{map[string]any{"expression": "true"}}
	default:
		spec["validations"] = []any{map[string]any{"expression": pick(s, "true", "object.x +")}}
	}
	if s.number(3) == 2 {
		spec["matchConditions"] = s.conditions()
	}
	if s.rarely() {
		spec["failurePolicy"] = pick(s, "Fail", "Ignore", "Foo")
	}
	if s.rarely() {
		spec["webhookConfiguration"] = map[string]any{"timeoutSeconds": pick[int64](s, 5, 30, 31, 0, -1)}
	}
	if s.rarely() {
		spec["autogen"] = map[string]any{"podControllers": map[string]any{"controllers": several(s, 3, "deployments", "cronjobs", "nothing")}}
	}
	return spec
}

func (s *source) rules() (out []any) {
	for range 1 + s.number(3) {
		r := map[string]any{
			"apiGroups":   several(s, 3, "", "apps", "*", "a/b", "Foo"),
			"apiVersions": several(s, 3, "v1", "*", "", "a/b", "v2"),
			"operations":  several(s, 3, "CREATE", "UPDATE", "FOO", "*", "create", "DELETE", "CONNECT", ""),
			"resources":   several(s, 4, "pods", "*", "*/*", "pods/*", "pods/exec", "*/scale", "", "Pods", "/", "/x", "x/", "a/b/c", "*/", "deployments"),
		}
		if s.rarely() {
			r["scope"] = pick(s, "*", "Namespaced", "Cluster", "Foo", "")
		}
		if s.rarely() {
			r["resourceNames"] = several(s, 2, "a", "b")
		}
		out = append(out, r)
	}
	return out
}

func (s *source) selector() map[string]any {
	out := map[string]any{}
	if s.number(2) == 1 {
		out["matchLabels"] = map[string]any{pick(s, "a", "kubernetes.io/metadata.name", "a b", "", "a/b/c"): pick(s, "x", "", "*", "x y", strings.Repeat("x", 64))}
	}
	if s.number(2) == 1 {
		e := map[string]any{"key": pick(s, "a", "kubernetes.io/metadata.name", "a b", ""), "operator": pick(s, "In", "NotIn", "Exists", "DoesNotExist", "Foo", "")}
		if s.number(2) == 1 {
			e["values"] = several(s, 2, "x", "", "x y", "*")
		}
		out["matchExpressions"] = []any{e}
	}
	return out
}

// Expressions are match conditions. Some do not compile, or not in every version of the API server.
var Expressions = []string{
	"true", "object.metadata.name != 'a'", "object.metadata.name != 'a' // a comment", "'http://a' == 'b'",
	"[1, 2].sum() == lists.range(3).sum()", "semver('1.2.3').major() == 1", "isSemver('1.0.0', true)", "[1].transformList(i, v, v).size() == 1",
	"ip('10.0.0.1').family() == 4", "format.dns1123Label().validate('a').hasValue()", "sets.contains([1], [1])", "['a'].sort() == ['a']",
	"authorizer.group('').resource('pods').check('get').allowed()", "authorizer.requestResource.check('get').allowed()", "namespaceObject.metadata.name == 'a'",
	"request.userInfo.username == 'a'", "1", "object.x +", "", "  ", "unknown", "variables.a", "params.a", "'a'.matches('[')", "resource.Get('v1', 'pods', 'a', 'b') == null",
	"images.containers.size() == 0", "(true", "true) || (true", "dyn(true)", "// only a comment", "true\n// a\n", "object.all(x, x.all(y, y == x))",
}

func (s *source) conditions() (out []any) {
	for range s.number(4) {
		out = append(out, map[string]any{
			"name":       pick(s, "a", "b", "a.b/c", "not a name", "", strings.Repeat("n", 63), strings.Repeat("n", 64), "kyverno-exclude-bootstrap-resources", "ephor.dev/policies"),
			"expression": pick(s, Expressions...),
		})
	}
	if s.number(30) == 29 {
		for i := range 70 {
			out = append(out, map[string]any{"name": fmt.Sprint("n", i), "expression": "true"})
		}
	}
	return out
}
