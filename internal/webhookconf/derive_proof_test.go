package webhookconf

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// conditionCompiler is the compiler of the API server's webhook plugins.
var conditionCompiler = celplugin.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))

// matcherOf compiles a match condition as the API server does.
func matcherOf(name, expression string) matchconditions.Matcher {
	fail := admissionv1.Fail
	return matchconditions.NewMatcher(conditionCompiler.CompileCondition(
		[]celplugin.ExpressionAccessor{&matchconditions.MatchCondition{Name: name, Expression: expression}},
		celplugin.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions), &fail, "webhook", "validating", "test")
}

// review is a request in two forms: as in the API server, and as we receive it.
type review struct {
	attributes *admission.VersionedAttributes
	request    func() *policy.Request
	text       string
}

// TestDerivedConditionsAreSound checks that a derived condition only skips requests without results: the API server's own matcher
// evaluates 100,000 random pairs of policies and requests. If a condition is false, the engine returns neither a result nor work, and no
// condition ever fails. EPHOR_SEED repeats one round.
func TestDerivedConditionsAreSound(t *testing.T) {
	pairs, wanted := 0, 100_000
	if testing.Short() {
		wanted = 5_000
	}
	var count struct{ webhooks, derived, no, yes, results int }
	first := uint64(1)
	if s := os.Getenv("EPHOR_SEED"); s != "" {
		first, _ = strconv.ParseUint(s, 10, 64)
		wanted = 1
	}
	known := discovery.New(cluster+`
v1 namespaces/status Namespace!
v1 namespaces/finalize Namespace!
v1 pods/status Pod
v1 pods/binding Binding
rbac.authorization.k8s.io/v1 clusterroles ClusterRole!
`, time.Now)
	for seed := first; pairs < wanted; seed++ {
		g := &generator{rand.New(rand.NewPCG(seed, 7))}
		programs, texts := g.programs(t)
		input := in(programs...)
		input.Resources, input.Options.Derive = known, true
		want, _, _, err := Desired(input)
		if err != nil {
			t.Fatal(err)
		}
		reviews := g.reviews(60)
		for _, c := range all(want) {
			stages := policy.StageValidate | policy.StageGenerate | policy.StageMutateExisting
			switch c.GetName() {
			case ResourceValidating:
			case ResourceMutating:
				stages = policy.StageMutate | policy.StageVerifyImages
			default:
				continue
			}
			for _, w := range webhooksOf(c) {
				count.webhooks++
				expression := ""
				for _, m := range conditionsOf(w) {
					if m.Name == DerivedCondition {
						expression = m.Expression
					}
				}
				if expression == "" {
					continue
				}
				count.derived++
				var selections []policy.Selection
				for _, p := range programs {
					if p.Settings.Admission && strings.HasSuffix(w.name(), strings.ToLower(p.Settings.FailurePolicy.String())) {
						selections = append(selections, policy.Selection{Program: p, Rules: p.Rules})
					}
				}
				matcher := matcherOf(DerivedCondition, expression)
				for _, r := range reviews {
					pairs += len(selections)
					asked := matcher.Match(t.Context(), r.attributes, nil, nil)
					out := engine.Eval(t.Context(), engine.Input{Selections: selections, Request: r.request(), Stages: stages})
					switch {
					case asked.Error != nil:
						t.Fatalf("seed %d: the condition failed: %v\n%s\nrequest: %s", seed, asked.Error, expression, r.text)
					case asked.Matches:
						count.yes++
						count.results += min(1, len(out.Results))
					case len(out.Results)+len(out.Work) > 0:
						t.Fatalf("seed %d: the API server would not ask, but rule %s known %s: %s\n%s\nrequest: %s\n%s", seed, out.Results[0].Rule.Name,
							out.Results[0].Status, out.Results[0].Message, expression, r.text, strings.Join(texts, "---\n"))
					default:
						count.no++
					}
				}
			}
		}
	}
	t.Logf("%d pairs: %d of %d webhooks have a condition; it was false %d times and true %d times, %d of these with a result", pairs, count.derived, count.webhooks, count.no, count.yes, count.results)
	if wanted > 1 && (count.no < count.yes/4 || count.results < count.yes/20) {
		t.Error("the random policies and requests rarely match: the test proves little")
	}
}

func conditionsOf(w anyWebhook) []admissionv1.MatchCondition {
	if w.validating != nil {
		return w.validating.MatchConditions
	}
	return w.mutating.MatchConditions
}

// generator generates policies and requests from a small vocabulary, so that they often match.
type generator struct{ *rand.Rand }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g *generator) one(words ...string) string { return words[g.IntN(len(words))] }

// some returns one or two of the words.
func (g *generator) some(words ...string) []any {
	out := []any{g.one(words...)}
	if g.chance(35) {
		out = append(out, g.one(words...))
	}
	return out
}

type object = map[string]any

func (g *generator) programs(t *testing.T) (out []*policy.Program, texts []string) {
	var exceptions []*policy.Exception
	for i := range 1 + g.IntN(3) {
		p := g.policy(fmt.Sprint("p", i))
		text, _ := yaml.Marshal(p)
		texts = append(texts, string(text))
		program, _ := compile.One(compile.Object{Value: roundTrip(t, text)})
		if program == nil {
			t.Fatalf("not a policy: %s", text)
		}
		out = append(out, program)
		if g.chance(20) {
			text, _ := yaml.Marshal(object{
				"apiVersion": "kyverno.io/v2", "kind": "PolicyException", "metadata": object{"name": "e", "namespace": "x"},
				"spec": object{
					"exceptions": []any{object{"policyName": program.Key(), "ruleNames": []any{"*"}}},
					"match":      object{"any": []any{object{"resources": object{"kinds": []any{g.one("Pod", "ConfigMap")}}}}},
				},
			})
			if e, _ := compile.OneException(compile.Object{Value: roundTrip(t, text)}); e != nil {
				exceptions = append(exceptions, e)
			}
		}
	}
	return catalog.Join(out, exceptions), texts
}

func roundTrip(t testing.TB, text []byte) map[string]any {
	js, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	v, err := value.DecodeJSON(js)
	if err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any)
}

func (g *generator) policy(name string) object {
	namespaced := g.chance(20)
	meta := object{"name": name}
	kind := "ClusterPolicy"
	if namespaced {
		kind, meta["namespace"] = "Policy", g.one("x", "y")
	}
	var rules []any
	for i := range 1 + g.IntN(2) {
		rules = append(rules, g.rule(fmt.Sprint("r", i), namespaced))
	}
	spec := object{"rules": rules, "background": false, "failurePolicy": g.one("Fail", "Fail", "Ignore")}
	if g.chance(15) {
		spec["applyRules"] = "One"
	}
	if g.chance(5) {
		spec["admission"] = false
	}
	return object{"apiVersion": "kyverno.io/v1", "kind": kind, "metadata": meta, "spec": spec}
}

func (g *generator) rule(name string, namespaced bool) object {
	r := object{"name": name, "match": g.block(namespaced, false)}
	if g.chance(50) {
		r["exclude"] = g.block(namespaced, true)
	}
	if g.chance(15) {
		r["preconditions"] = object{"all": []any{object{"key": "{{ request.operation }}", "operator": "Equals", "value": g.one("CREATE", "DELETE")}}}
	}
	deny := object{"failureAction": g.one("Enforce", "Audit"), "message": "no", "deny": object{}}
	switch g.IntN(20) {
	default:
		r["validate"] = deny
	case 0, 1, 2, 3, 4, 5:
		r["validate"] = object{"failureAction": g.one("Enforce", "Audit"), "message": "no", "pattern": object{"metadata": object{"labels": object{"k1": "?*"}}}}
	case 6, 7, 8, 9:
		r["mutate"] = object{"patchStrategicMerge": object{"metadata": object{"labels": object{g.one("k1", "k2", "k3"): g.one("v1", "v2")}}}}
	case 10:
		r["verifyImages"] = []any{object{"imageReferences": []any{"*"}, "mutateDigest": false, "required": g.chance(50), "verifyDigest": true,
			"attestors": []any{object{"entries": []any{object{"keys": object{"publicKeys": "k8s://x/y"}}}}}}}
	case 11:
		r["generate"] = object{"apiVersion": "v1", "kind": "ConfigMap", "name": "made", "namespace": g.one("x", "y"), "data": object{"data": object{"a": "b"}}}
	case 12:
		r["mutate"] = object{"targets": []any{object{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": "x"}}, "patchStrategicMerge": object{"data": object{"a": "b"}}}
	case 13:
		r["validate"] = object{"message": "broken", "pattern": object{"metadata": object{"^(labels)": "{{"}}}
	case 14:
		r["validate"] = object{"message": "cel", "cel": object{"expressions": []any{object{"expression": "false"}}}}
	}
	return r
}

func (g *generator) block(namespaced, exclude bool) object {
	var filters []any
	for range 1 + g.IntN(2) {
		filters = append(filters, g.filter(namespaced, exclude))
	}
	switch g.IntN(6) {
	case 0:
		return object{"all": filters}
	case 1:
		return filters[0].(object) // the older form
	case 2:
		if g.chance(10) { // both forms at once, which is unreadable
			return object{"any": filters, "all": filters}
		}
	}
	return object{"any": filters}
}

func (g *generator) filter(namespaced, exclude bool) object {
	d := object{}
	if !exclude || g.chance(40) {
		d["kinds"] = g.some("Pod", "Pod", "ConfigMap", "ConfigMap", "Namespace", "Namespace", "ClusterRole", "Pod/*", "*", "*/*", "Deployment/scale", "Namespace/status", "v1/Pod", "Conf*")
	}
	add := func(percent int, key string, v any) {
		if g.chance(percent) {
			d[key] = v
		}
	}
	add(25, "operations", g.some("CREATE", "UPDATE", "DELETE", "CONNECT"))
	add(25, "names", g.some("a", "b", "x", "y", "a", "b*", "?", ""))
	if d["names"] == nil || g.chance(10) {
		add(10, "name", g.one("a", "b", "*"))
	}
	if !namespaced || g.chance(10) {
		add(35, "namespaces", g.some("x", "y", "z", "x", "y*", "", "*"))
	}
	if g.chance(30) {
		sel := object{}
		if g.chance(70) {
			pairs := object{}
			for range 1 + g.IntN(2) {
				pairs[g.one("k1", "k2", "k3", "k1", "k*", "example.com/k4")] = g.one("v1", "v2", "v1", "v*", "")
			}
			sel["matchLabels"] = pairs
		}
		if g.chance(60) {
			e := object{"key": g.one("k1", "k2", "k3"), "operator": g.one("In", "NotIn", "Exists", "DoesNotExist", "In", "NotIn")}
			if op := e["operator"]; op == "In" || op == "NotIn" {
				e["values"] = g.some("v1", "v2", "")
			} else if g.chance(5) {
				e["values"] = []any{"v1"} // invalid
			}
			sel["matchExpressions"] = []any{e}
		}
		d["selector"] = sel
	}
	add(6, "namespaceSelector", object{"matchLabels": object{"env": g.one("prod", "dev")}})
	add(6, "annotations", object{"note": g.one("yes", "*")})
	f := object{}
	if len(d) > 0 {
		f["resources"] = d
	}
	if g.chance(20) {
		var subjects []any
		for range 1 + g.IntN(2) {
			switch g.IntN(4) {
			case 0:
				subjects = append(subjects, object{"kind": "Group", "name": g.one("devs", "ops", "d*", "")})
			case 1:
				subjects = append(subjects, object{"kind": "ServiceAccount", "name": g.one("robot", "*"), "namespace": g.one("x", "y", "")})
			case 2:
				subjects = append(subjects, object{"kind": g.one("User", "User", "Nobody"), "name": g.one("alice", "bob", "al?ce", "", "o'brien \"x\"\\")})
			default:
				subjects = append(subjects, object{"kind": "Group", "name": g.one("devs", "ops")})
			}
		}
		f["subjects"] = subjects
	}
	if g.chance(5) {
		f["clusterRoles"] = []any{"admin"}
	}
	if g.chance(5) {
		f["roles"] = []any{"x:reader"}
	}
	return f
}

// subjectsOfReviews are the resources in the requests.
var subjectsOfReviews = []struct {
	kind, resource, sub, group, version, objectKind string
	namespaced                                      bool
}{
	{"Pod", "pods", "", "", "v1", "Pod", true},
	{"Pod", "pods", "", "", "v1", "Pod", true},
	{"ConfigMap", "configmaps", "", "", "v1", "ConfigMap", true},
	{"ConfigMap", "configmaps", "", "", "v1", "ConfigMap", true},
	{"Namespace", "namespaces", "", "", "v1", "Namespace", false},
	{"Namespace", "namespaces", "status", "", "v1", "Namespace", false},
	{"ClusterRole", "clusterroles", "", "rbac.authorization.k8s.io", "v1", "ClusterRole", false},
	{"Pod", "pods", "ephemeralcontainers", "", "v1", "Pod", true},
	{"Pod", "pods", "status", "", "v1", "Pod", true},
	{"Pod", "pods", "binding", "", "v1", "Binding", true},
	{"Pod", "pods", "exec", "", "v1", "PodExecOptions", true},
	{"Deployment", "deployments", "scale", "apps", "v1", "Scale", true},
}

func (g *generator) reviews(n int) (out []review) {
	for range n {
		out = append(out, g.review())
	}
	return out
}

func (g *generator) review() review {
	s := subjectsOfReviews[g.IntN(len(subjectsOfReviews))]
	op := policy.Operation(g.one("CREATE", "CREATE", "UPDATE", "UPDATE", "DELETE"))
	if s.objectKind == "PodExecOptions" {
		op = policy.Connect
	} else if g.chance(3) {
		op = policy.Connect
	}
	name, generated := g.one("a", "b", "x", "y", "bb"), ""
	if op == policy.Create && s.sub == "" && g.chance(30) {
		name, generated = "", g.one("a", "b", "x", "a-")
	}
	namespace := ""
	switch {
	case s.namespaced:
		namespace = g.one("x", "y", "z")
	case s.resource == "namespaces":
		namespace = name
		if g.chance(25) {
			namespace = g.one("", "x", "z") // no code uses this field
		}
	}
	var object, old *value.Doc
	var newObject, oldObject runtime.Object
	make := func() (runtime.Object, *value.Doc) {
		o := g.object(s.objectKind, s.group, s.version, name, generated, namespace, s.namespaced)
		return &unstructured.Unstructured{Object: o}, value.Of(runtime.DeepCopyJSON(o))
	}
	if op != policy.Delete {
		newObject, object = make()
	}
	if op == policy.Update || op == policy.Delete {
		oldObject, old = make()
	}
	if op == policy.Connect && g.chance(20) {
		newObject, object = nil, nil
	}
	u := &policy.User{Username: g.one("alice", "bob", "carol", "system:serviceaccount:x:robot", "", "o'brien \"x\"\\")}
	for range g.IntN(3) {
		u.Groups = append(u.Groups, g.one("devs", "ops", "all"))
	}
	gvk := schema.GroupVersionKind{Group: s.group, Version: s.version, Kind: s.kind}
	sent := gvk
	if s.objectKind != s.kind {
		sent.Kind = s.objectKind
	}
	gvr := schema.GroupVersionResource{Group: s.group, Version: s.version, Resource: s.resource}
	attributes := admission.NewAttributesRecord(newObject, oldObject, sent, namespace, name, gvr, s.sub, admission.Operation(op), nil, false,
		&user.DefaultInfo{Name: u.Username, Groups: u.Groups})
	env, broken := g.one("prod", "dev", ""), g.chance(30)
	admin := g.chance(50)
	text := fmt.Sprintf("%s %s %s/%s in %q by %q %v", op, gvr, name, s.sub, namespace, u.Username, u.Groups)
	if object != nil {
		text += "\nobject " + value.JSON(mapOf(object))
	}
	if old != nil {
		text += "\nold " + value.JSON(mapOf(old))
	}
	return review{
		text:       text,
		attributes: &admission.VersionedAttributes{Attributes: attributes, VersionedObject: admission.NewLazyObject(newObject), VersionedOldObject: admission.NewLazyObject(oldObject), VersionedKind: sent},
		request: func() *policy.Request {
			return &policy.Request{Review: policy.Review{
				Origin: policy.FromAdmission, Operation: op, GVK: gvk, RequestGVK: sent, GVR: gvr, Subresource: s.sub, Namespace: namespace, Name: name,
				Object: object, OldObject: old, User: u,
				ResolveRoles: func(context.Context) (policy.Roles, error) {
					if broken {
						return policy.Roles{}, errors.New("no bindings")
					}
					if admin {
						return policy.Roles{ClusterRoles: []string{"admin"}, Roles: []string{"x:reader"}}, nil
					}
					return policy.Roles{}, nil
				},
				ResolveNamespace: func(context.Context) (map[string]string, error) {
					if broken {
						return nil, errors.New("no namespace")
					}
					return map[string]string{"env": env}, nil
				},
			}}
		},
	}
}

func mapOf(d *value.Doc) map[string]any {
	m, _ := d.Map()
	return m
}

// object returns an object that the API server may send: PodExecOptions have no metadata, and some objects have no labels.
func (g *generator) object(kind, group, version, name, generated, namespace string, namespaced bool) object {
	o := object{"apiVersion": schema.GroupVersion{Group: group, Version: version}.String(), "kind": kind}
	if kind == "PodExecOptions" || g.chance(3) {
		return o
	}
	meta := object{}
	if name != "" {
		meta["name"] = name
	}
	if generated != "" {
		meta["generateName"] = generated
	}
	if namespaced {
		meta["namespace"] = namespace
	}
	switch g.IntN(8) {
	case 0: // no labels
	case 1:
		meta["labels"] = nil
	case 2:
		meta["labels"] = object{}
	default:
		labels := object{}
		for range 1 + g.IntN(3) {
			labels[g.one("k1", "k2", "k3", "example.com/k4")] = g.one("v1", "v2", "v3", "")
		}
		meta["labels"] = labels
	}
	if g.chance(30) {
		meta["annotations"] = object{"note": g.one("yes", "no")}
	}
	o["metadata"] = meta
	if kind == "Pod" {
		o["spec"] = object{"containers": []any{object{"name": "c", "image": "nginx"}}}
	}
	return o
}
