package robustness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// asked is a world that records every request and, like a careless implementation, ignores the Reach.
type asked struct{ questions []string }

func (a *asked) For(world.Reach) world.World {
	note := func(format string, args ...any) { a.questions = append(a.questions, fmt.Sprintf(format, args...)) }
	return world.World{
		Objects: func(_ context.Context, r world.ObjectRequest) (map[string]any, error) {
			note("get %s %s/%s", r.Kind.Kind, r.Namespace, r.Name)
			return map[string]any{"data": map[string]any{"k": "v"}}, nil
		},
		API: world.API(func(_ context.Context, r world.APIRequest) (any, error) {
			note("%s %s", r.Method, r.Path)
			return map[string]any{}, nil
		}),
		Services: world.Services(func(_ context.Context, r world.ServiceRequest) (any, error) {
			note("service %s", r.URL)
			return map[string]any{}, nil
		}),
		Globals: world.Globals(func(_ context.Context, name world.GlobalRequest) (any, error) {
			note("global %s", name)
			return "v", nil
		}),
	}
}

// Row S1 of docs/security/threat-model.md, with S2, S4 and S5: a namespaced policy cannot read outside its namespace through any context
// entry, in any place that accepts one: it gets an error, and no request is sent. The same entries in a ClusterPolicy send requests, which
// shows that the places do load them.
func TestS1EveryPlaceAndSource(t *testing.T) {
	sources := map[string]string{ // the source in the other namespace, and whether a ClusterPolicy may read it
		"apiCall":            `apiCall: {urlPath: /api/v1/namespaces/other/secrets/x}`,
		"apiCall, list":      `apiCall: {urlPath: /api/v1/secrets}`,
		"apiCall, variable":  `apiCall: {urlPath: "/api/v1/namespaces/{{ request.object.metadata.labels.evil }}/secrets/x"}`,
		"apiCall, POST":      `apiCall: {urlPath: /api/v1/namespaces/d/configmaps, method: POST, data: [{key: kind, value: ConfigMap}]}`,
		"apiCall, review":    `apiCall: {urlPath: /apis/authorization.k8s.io/v1/subjectaccessreviews, method: POST, data: [{key: kind, value: SubjectAccessReview}]}`,
		"service":            `apiCall: {service: {url: "http://example.com/"}}`,
		"configMap":          `configMap: {name: x, namespace: other}`,
		"configMap, dots":    `configMap: {name: x, namespace: "d/../other"}`,
		"configMap, escaped": `configMap: {name: x, namespace: "d%2f..%2fother"}`,
		"configMap, name":    `configMap: {name: "../../other/configmaps/x", namespace: other}`,
		"configMap, unicode": `configMap: {name: x, namespace: "ｏther"}`,
		"globalReference":    `globalReference: {name: x}`,
	}
	for _, trick := range []string{"..", "%2e%2e", ".%2E", "%252e%252e", "", "#", "?", "%23", "%3f", "\u2025", "\\..", ";..", "..\u200b", "."} {
		sources["path with "+trick] = `apiCall: {urlPath: "/api/v1/namespaces/d/` + strings.ReplaceAll(trick, `\`, `\\`) + `/other/secrets/x"}`
		sources["namespace with "+trick] = `apiCall: {urlPath: "/api/v1/namespaces/other` + strings.ReplaceAll(trick, `\`, `\\`) + `/secrets/x"}`
	}
	places := map[string]string{
		"rule":            "context: [%s]\n    validate: {message: \"%[2]s\", deny: {conditions: {all: [{key: \"%[2]s\", operator: Equals, value: x}]}}}",
		"preconditions":   "context: [%s]\n    preconditions: {all: [{key: \"%[2]s\", operator: NotEquals, value: x}]}\n    validate: {message: bad, pattern: {metadata: {name: x}}}",
		"pattern":         "context: [%s]\n    validate: {message: bad, pattern: {metadata: {name: \"%[2]s\"}}}",
		"foreach":         "validate: {message: bad, foreach: [{list: \"['a']\", context: [%s], deny: {conditions: {all: [{key: \"%[2]s\", operator: Equals, value: x}]}}}]}",
		"mutate":          "context: [%s]\n    mutate: {patchStrategicMerge: {metadata: {labels: {a: \"%[2]s\"}}}}",
		"mutate, foreach": "mutate: {foreach: [{list: \"['a']\", context: [%s], patchStrategicMerge: {metadata: {labels: {a: \"%[2]s\"}}}}]}",
		"generate":        "context: [%s]\n    generate: {apiVersion: v1, kind: ConfigMap, name: x, namespace: d, data: {data: {a: \"%[2]s\"}}}",
	}
	const object = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d","labels":{"evil":"other"}}}`
	tried := 0
	for sourceName, source := range sources {
		for placeName, place := range places {
			entry := "{name: v, " + source + "}"
			rule := fmt.Sprintf(place, entry, "{{ v || 'none' }}")
			for _, namespaced := range []bool{true, false} {
				kind, meta := "ClusterPolicy", "{name: p}"
				if namespaced {
					kind, meta = "Policy", "{name: p, namespace: d}"
				}
				text := "apiVersion: kyverno.io/v1\nkind: " + kind + "\nmetadata: " + meta + "\nspec:\n  rules:\n  - name: r\n    match: {any: [{resources: {kinds: [Pod]}}]}\n    " + rule + "\n"
				program := compileAny(t, text)
				w := &asked{}
				req := request(policy.Create, value.FromJSON(object))
				snapshot := catalog.NewStatic([]*policy.Program{program})
				out := engine.Eval(context.Background(), engine.Input{
					Selections: snapshot.For(req, catalog.Route{Stages: everyStage}), Request: req, Stages: everyStage, Root: w, Plan: true,
				})
				tried++
				what := sourceName + " in " + placeName
				if namespaced {
					inside := false
					for _, q := range w.questions {
						inside = strings.HasPrefix(q, "GET /api/v1/namespaces/d?") // the namespace itself, with an unusual query
						if !inside {
							t.Errorf("%s of a Policy asked %q", what, q)
						}
					}
					if !inside && !failedWith(out) && !program.Diags.HasErrors() {
						t.Errorf("%s of a Policy gives %+v", what, out.Results)
					}
					continue
				}
				if plain := !strings.Contains(sourceName, "with") && !strings.Contains(sourceName, ","); plain && len(w.questions) != 1 {
					t.Errorf("%s of a ClusterPolicy asked %q: %+v", what, w.questions, out.Results)
				}
			}
		}
	}
	t.Logf("%d combinations", tried)
}

// failedWith reports whether some result is an error, or some work could not be planned.
func failedWith(out policy.Outcome) bool {
	for _, r := range out.Results {
		if r.Status == policy.StatusError {
			return true
		}
		for _, w := range r.Work {
			if w.Err != nil {
				return true
			}
		}
	}
	return false
}

// Row S6 of docs/security/threat-model.md: there is no Reach by accident. Code that sets no scope reaches nothing.
func TestS6NoReachByMistake(t *testing.T) {
	var forgotten world.Reach
	for _, ns := range []string{"", "default", "kube-system"} {
		if forgotten.Allows(ns) {
			t.Errorf("the zero Reach allows namespace %q", ns)
		}
		if world.InNamespace("").Allows(ns) {
			t.Errorf("a Reach of no namespace allows namespace %q", ns)
		}
	}
	if !world.Cluster().Allows("any") || !world.InNamespace("a").Allows("a") || world.InNamespace("a").Allows("b") || world.InNamespace("a").Allows("") {
		t.Error("Allows")
	}
	for _, text := range []string{
		"apiVersion: kyverno.io/v1\nkind: Policy\nmetadata: {name: p}\nspec: {rules: [{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {message: bad, deny: {}}}]}",
		"apiVersion: kyverno.io/v2\nkind: CleanupPolicy\nmetadata: {name: p}\nspec: {schedule: \"* * * * *\", match: {any: [{resources: {kinds: [Pod]}}]}}",
	} {
		if p := compileAny(t, text); p.Reach().IsCluster() {
			t.Errorf("a namespaced policy without a namespace reaches the cluster:\n%s", text)
		}
	}
}

const selected = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p}
spec:
  failurePolicy: %s
  rules:
  - name: r
    match: {any: [{resources: {kinds: [Pod], namespaceSelector: {matchLabels: {a: b}}}}]}
    validate: {failureAction: Enforce, message: bad, deny: {}}
`

// Row S18 of docs/security/threat-model.md: labels of a namespace that could not be read are an error, which failurePolicy handles, never
// "no match".
func TestS18MissingInformation(t *testing.T) {
	const object = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d"}}`
	broken := func(string) (map[string]string, error) { return nil, errors.New("the cache is not there") }
	known := func(string) (map[string]string, error) { return map[string]string{"a": "b"}, nil }
	other := func(string) (map[string]string, error) { return map[string]string{"a": "c"}, nil }
	for _, c := range []struct {
		failurePolicy string
		labels        func(string) (map[string]string, error)
		want          string
	}{
		{"Fail", broken, "the cache is not there"}, {"Ignore", broken, "allowed"},
		{"Fail", known, "denied: "}, {"Ignore", known, "denied: "},
		{"Fail", other, "allowed"},
	} {
		srv := serve(t, cluster{labels: c.labels}, nil, compileText(t, fmt.Sprintf(selected, c.failurePolicy))...)
		got := verdict(post(t, srv, "/validate/"+strings.ToLower(c.failurePolicy), review("CREATE", "", object)))
		if !strings.Contains(got, c.want) || c.want != "allowed" && got == "allowed" {
			t.Errorf("failurePolicy %s: %s, want %s", c.failurePolicy, got, c.want)
		}
	}
}

// Row S19 of docs/security/threat-model.md: an object that is being deleted, or that was created with a finalizer, is evaluated like any
// other.
func TestS19Terminating(t *testing.T) {
	rules := map[string]string{
		"pattern":     `validate: {failureAction: Enforce, message: bad, pattern: {spec: {=(hostNetwork): false}}}`,
		"deny":        `validate: {failureAction: Enforce, message: bad, deny: {conditions: {all: [{key: "{{ request.object.spec.hostNetwork || ` + "`false`" + ` }}", operator: Equals, value: true}]}}}`,
		"foreach":     `validate: {failureAction: Enforce, message: bad, foreach: [{list: "[request.object.spec]", pattern: {=(hostNetwork): false}}]}`,
		"podSecurity": `validate: {failureAction: Enforce, message: bad, podSecurity: {level: baseline, version: latest}}`,
		"cel":         `validate: {failureAction: Enforce, cel: {expressions: [{expression: "!has(object.spec.hostNetwork) || !object.spec.hostNetwork", message: bad}]}}`,
	}
	pod := func(meta, spec string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d"` + meta + `},"spec":{"containers":[{"name":"c","image":"i"}]` + spec + `}}`
	}
	const (
		finalizer = `,"finalizers":["example.com/wait"]`
		dying     = finalizer + `,"deletionTimestamp":"2024-01-01T00:00:00Z","deletionGracePeriodSeconds":0`
		bad       = `,"hostNetwork":true`
	)
	for name, rule := range rules {
		text := "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec:\n  rules:\n  - name: r\n    match: {any: [{resources: {kinds: [Pod]}}]}\n    " + rule
		srv := serve(t, cluster{}, nil, compileText(t, text)...)
		for _, c := range []struct{ what, op, old, object, want string }{
			{"created with a finalizer", "CREATE", "", pod(finalizer, bad), "denied"},
			{"created as if it were being deleted", "CREATE", "", pod(dying, bad), "denied"},
			{"changed while it is deleted", "UPDATE", pod(dying, ""), pod(dying, bad), "denied"},
			{"changed to be deleted", "UPDATE", pod(finalizer, ""), pod(dying, bad), "denied"},
			{"a good one that is deleted", "UPDATE", pod(dying, ""), pod(dying, ""), "allowed"},
		} {
			if got := verdict(post(t, srv, "/validate/fail", review(c.op, c.old, c.object))); !strings.HasPrefix(got, c.want) {
				t.Errorf("%s, %s: %s, want %s", name, c.what, got, c.want)
			}
		}
	}
}

// Row S21 of docs/security/threat-model.md: no content of a policy, an object or a review crashes the process; a rule that panics affects
// only its own result.
func TestS21NothingPanics(t *testing.T) {
	expressions := []string{
		"@", "@ | @", "@.a", "@[0]", "* | [0]", "request.object.spec.list[0].a", "request.object.spec.list[*].a | [0]", "request.object.spec.list[?a]", "element", "element.a",
		"images.containers.*.name", "request.object.spec.missing | length(@)", "length(request.object.spec.list[0])", "keys(request.object.spec.list[0])",
		"to_string(@)", "merge(request.object, @)", "sort_by(request.object.spec.list, &a)", "max_by(request.object.spec.list, &@)", "items(request.object.spec.list, 'a', 'b')",
		"zip(request.object.spec.list, `null`)", "map(&@.a.b, request.object.spec.list)", "join(',', request.object.spec.list)", "sum(request.object.spec.list)", "serviceAccountName", "target.spec", "request.userInfo.groups[0]",
		"request.oldObject.spec.a", "request.object.*.*[][]", "parse_json(request.object.spec.text)", "parse_yaml(request.object.spec.text)", "x509_decode(request.object.spec.text)", "time_diff(request.object.spec.text, '')",
		"random(request.object.spec.text)", "regex_match(request.object.spec.text, request.object.spec.text)", "divide(`1`, `0`)", "modulo('1', '0')", "lookup(request.object.spec.list, `-1`)", "object_from_lists(request.object.spec.list, request.object.spec.list)", "{{request.object.spec.text}}", "", " ", "-@", "'", "`", "a[",
	}
	places := []string{
		`validate: {message: "%s", deny: {conditions: {any: [{key: "%[1]s", operator: AnyIn, value: "%[1]s"}, {key: "%[1]s", operator: GreaterThan, value: 1h}]}}}`,
		`validate: {message: bad, pattern: {spec: {list: [{a: "%s"}], =(text): "%[1]s"}}}`,
		`validate: {message: bad, anyPattern: [{spec: "%s"}, {"%[1]s": x}]}`,
		`validate: {message: bad, foreach: [{list: request.object.spec.list, elementScope: false, context: [{name: c, variable: {value: "%s", default: 1, jmesPath: "@"}}], deny: {conditions: {all: [{key: "{{c}}%[1]s", operator: Equals, value: "%[1]s"}]}}}]}`,
		`validate: {message: bad, foreach: [{list: "request.object.spec.list[]", pattern: {a: "%s"}}]}`,
		`mutate: {patchStrategicMerge: {spec: {list: ["%s"], (text): "*", +(new): "%[1]s"}}}`,
		`mutate: {foreach: [{list: request.object.spec.list, patchesJson6902: "- {op: replace, path: \"/spec/list/{{elementIndex}}\", value: \"{{element}}\"}"}, {list: request.object.spec.list, patchStrategicMerge: {spec: {"%s": "%[1]s"}}}]}`,
		`mutate: {patchesJson6902: "[{op: add, path: \"/spec/%s\", value: 1}, {op: move, from: /spec, path: /spec/list/-}, {op: remove, path: /}]"}`,
		`generate: {apiVersion: v1, kind: ConfigMap, name: "%s", namespace: "%[1]s", data: {data: "%[1]s"}}`,
	}
	bodies := []string{
		`{"list":[null,{"a":null},[],1.5,"x",true,{}],"text":"{{@}}"}`, `{"list":null,"text":null}`, `{"list":{"a":1},"text":"{{request.object.spec.text}}"}`, `{"list":[[[[null]]]],"text":"("}`, `null`, `[]`, `"x"`,
	}
	evaluated := 0
	for _, place := range places {
		for _, expression := range expressions {
			rule := fmt.Sprintf(place, "{{ "+strings.ReplaceAll(expression, `"`, `\"`)+" }}")
			program := compileAny(t, "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec:\n  rules:\n  - name: r\n    match: {any: [{resources: {kinds: [Pod]}}]}\n    "+rule)
			for _, spec := range bodies {
				req := request(policy.Update, value.FromJSON(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d"},"spec":`+spec+`}`))
				req.OldObject = value.FromJSON(`{"apiVersion":"v1","kind":"Pod","metadata":null,"spec":` + spec + `}`)
				for _, r := range evaluate(context.Background(), req, program).Results {
					evaluated++
					if strings.Contains(r.Message, "panic") {
						t.Errorf("%s on %s: %s", rule, spec, r.Message)
					}
					if r.Status == policy.StatusError && r.Message == "" {
						t.Errorf("%s on %s: an error without words", rule, spec)
					}
				}
			}
		}
	}
	t.Logf("%d results", evaluated)

	panics := &policy.Program{Name: "p", Rules: []*policy.Rule{
		{Name: "a", Stage: policy.StageValidate, Matching: policy.Matching{Match: func(context.Context, *policy.Request) (bool, error) { panic("match") }}},
		{Name: "b", Stage: policy.StageValidate, Matching: policy.Matching{Match: always}, Eval: func(*policy.Call) policy.Yield { panic("eval") }},
		{Name: "c", Stage: policy.StageValidate, Matching: policy.Matching{Match: always}, Eval: func(*policy.Call) policy.Yield { return policy.Yield{Status: policy.StatusPass} }},
	}}
	req := request(policy.Create, value.Of(map[string]any{}))
	out := engine.Eval(context.Background(), engine.Input{Selections: []policy.Selection{{Program: panics, Rules: panics.Rules}}, Request: req, Stages: policy.StageValidate})
	if len(out.Results) != 3 || out.Results[0].Status != policy.StatusError || out.Results[1].Status != policy.StatusError || out.Results[2].Status != policy.StatusPass {
		t.Errorf("got %+v", out.Results)
	}
}

func always(context.Context, *policy.Request) (bool, error) { return true, nil }

// Row S21 of docs/security/threat-model.md: an invalid review gets an HTTP error, so that failurePolicy handles it, and the next review is
// answered.
func TestS21MalformedReviews(t *testing.T) {
	srv := serve(t, cluster{}, nil, compileText(t, strings.Replace(fmt.Sprintf(selected, "Fail"), ", namespaceSelector: {matchLabels: {a: b}}", "", 1))...)
	good := string(review("CREATE", "", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d"}}`))
	for _, body := range []string{
		"", "null", "[]", "1", `"x"`, "{", "{}", `{"request":null}`, `{"request":[]}`, `{"request":{"object":{}}}`, `{"request":{"uid":1}}`, `{"request":{"kind":[]}}`,
		`{"request":{"uid":"u","operation":"CREATE","object":[]}}`, `{"request":{"uid":"u","operation":"CREATE","object":"x"}}`, `{"request":{"uid":"u","operation":"NOPE","object":{}}}`,
		strings.Replace(good, `"metadata":{`, `"metadata":[],"m":{`, 1), strings.Replace(good, `"labels"`, `"l"`, 1), strings.Replace(good, `"userInfo":{`, `"userInfo":[],"u":{`, 1),
		strings.Replace(good, `"metadata":{`, `"metadata":{"labels":[1],"annotations":"x","name":{},`, 1), good[:len(good)/2], good + "x", strings.Repeat("[", 100_000), "\xff\xfe{}", strings.Repeat(`{"request":`, 2000),
		strings.Replace(good, `"operation":"CREATE"`, `"operation":"DELETE"`, 1), strings.Replace(good, `"oldObject":null`, `"oldObject":3`, 1), strings.Replace(good, `"kind":{`, `"kind":null,"k":{`, 1),
	} {
		for _, path := range []string{"/validate/fail", "/mutate/fail", "/validate", "/mutate"} {
			got := verdict(post(t, srv, path, []byte(body)))
			if strings.Contains(got, "HTTP 500") && strings.Contains(got, "internal error") {
				t.Errorf("%s to %.200s: a panic", path, body)
			}
			if got == "allowed" && strings.HasPrefix(path, "/validate") && !strings.Contains(body, "DELETE") && strings.Contains(body, `"kind":"Pod"`) {
				t.Errorf("%s allows %.300s", path, body)
			}
		}
	}
	if got := verdict(post(t, srv, "/validate/fail", []byte(good))); !strings.HasPrefix(got, "denied") {
		t.Errorf("after all that: %s", got)
	}
}

// expiring is a context that expires after a number of checks, however busy the machine is.
type expiring struct {
	context.Context
	looks int
}

func (e *expiring) Err() error {
	if e.looks--; e.looks < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// Row S22 of docs/security/threat-model.md: an evaluation ends with its deadline, whatever its budget.
func TestS22Deadline(t *testing.T) {
	b := deny(nil, "{{ length(to_string(request.object)) }}")
	program := compileAny(t, b())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	out := evaluate(ctx, request(policy.Create, value.Of(map[string]any{"kind": "Pod"})), program)
	if len(out.Results) != 1 || out.Results[0].Status != policy.StatusError {
		t.Errorf("after the deadline: %+v", out.Results)
	}
	endless := rule("validate:", "  message: bad", "  foreach:", "  - list: request.object.spec.list", "    foreach:", "    - list: request.object.spec.list",
		"      deny: {conditions: {all: [{key: \"{{element}}\", operator: Equals, value: x}]}}")()
	soon := &expiring{Context: context.Background(), looks: 50}
	out = evaluate(soon, request(policy.Create, value.FromJSON(pod(numbered(5000, "%d"))())), compileAny(t, endless))
	if len(out.Results) != 1 || out.Results[0].Status != policy.StatusError || !strings.Contains(out.Results[0].Message, "deadline") && !strings.Contains(out.Results[0].Message, "the time for the evaluation is over") {
		t.Errorf("a foreach of 25,000,000 elements that is out of time soon: %+v", out.Results)
	}
}
