package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"ephor.invalid/ephor/internal/policy"
)

// kept records the work, one line each.
type kept struct {
	mu    sync.Mutex
	lines []string
	warn  []string
}

func (k *kept) Write(_ context.Context, req *policy.Request, work []policy.Work) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range work {
		line := fmt.Sprintf("%s %s/%s", w.Kind, w.Program.Key(), w.Rule.Name)
		if w.Trigger != nil {
			line += fmt.Sprintf(" for %s %s %s/%s", w.Trigger.APIVersion, w.Trigger.Kind, w.Trigger.Namespace, w.Trigger.UID)
		}
		if w.OfSource {
			line += " of source"
		}
		k.lines = append(k.lines, line)
	}
	return k.warn
}

func (k *kept) drain() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	slices.Sort(k.lines)
	out := strings.Join(k.lines, ", ")
	k.lines = nil
	return out
}

const workPolicies = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: work}
spec:
  rules:
  - name: generate
    match: {any: [{resources: {kinds: [ConfigMap], selector: {matchLabels: {team: "?*"}}}}]}
    generate: {synchronize: true, apiVersion: v1, kind: Secret, name: s, namespace: shop, data: {type: Opaque}}
  - name: copy
    match: {any: [{resources: {kinds: [ConfigMap], selector: {matchLabels: {team: copy}}}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: s, namespace: shop, clone: {namespace: base, name: s}}
  - name: existing
    match: {any: [{resources: {kinds: [ConfigMap], selector: {matchLabels: {team: m}}}}]}
    skipBackgroundRequests: false
    mutate: {targets: [{apiVersion: v1, kind: ConfigMap, name: x, namespace: shop}], patchStrategicMerge: {data: {a: b}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: enforce}
spec:
  failurePolicy: Ignore
  rules:
  - name: no-blocked
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate: {failureAction: Enforce, message: blocked, pattern: {metadata: {=(labels): {=(blocked): "no"}}}}
`

// The work that each request causes.
func TestDeferredWork(t *testing.T) {
	const background = "system:serviceaccount:kyverno:kyverno-background-controller"
	srv, _ := setup(t, fakeCluster{labels: map[string]map[string]string{"shop": nil}}, nil, strings.Split(workPolicies, "---\n")...)
	k := &kept{}
	srv.Deferred, srv.review.Accounts.Background = k, background
	object := func(labels string) []byte {
		return []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"shop","uid":"u","labels":{` + labels + `}}}`)
	}
	const team, match, copied = `"team":"a"`, `"team":"m"`, `"team":"copy"`
	downstream := func(rule, synchronizedBy string) string {
		return `"app.kubernetes.io/managed-by":"kyverno","generate.kyverno.io/policy-name":"` + synchronizedBy + `","generate.kyverno.io/policy-namespace":"","generate.kyverno.io/rule-name":"` + rule + `",` +
			`"generate.kyverno.io/trigger-group":"","generate.kyverno.io/trigger-version":"v1","generate.kyverno.io/trigger-kind":"ConfigMap","generate.kyverno.io/trigger-namespace":"shop","generate.kyverno.io/trigger-uid":"t"`
	}
	const source = `"generate.kyverno.io/clone-source":""`
	for _, c := range []struct {
		name, path string
		op         admissionv1.Operation
		old, new   string
		user       string
		dryRun     bool
		want       string
	}{
		{name: "no rule", op: "CREATE", new: `"x":"y"`},
		{name: "creation", op: "CREATE", new: team, want: "generate work/generate"},
		{name: "both kinds", op: "CREATE", new: match, want: "generate work/generate, mutate-existing work/existing"},
		{name: "dry run", op: "CREATE", new: match, dryRun: true},
		{name: "the mutating webhook", path: "/mutate/fail", op: "CREATE", new: match},
		{name: "another failure policy", path: "/validate/ignore", op: "CREATE", new: match},
		{name: "all policies", path: "/validate", op: "CREATE", new: match, want: "generate work/generate, mutate-existing work/existing"},
		{name: "update", op: "UPDATE", old: team, new: team, want: "generate work/generate"},
		{name: "no longer", op: "UPDATE", old: team, new: `"x":"y"`, want: "delete-downstream work/generate"},
		{name: "neither", op: "UPDATE", old: `"x":"y"`, new: `"x":"z"`},
		{name: "deletion", op: "DELETE", old: team, want: "delete-downstream work/generate"},
		{name: "deletion, not a trigger", op: "DELETE", old: match, want: "delete-downstream work/generate"},
		{name: "the background controller", op: "CREATE", new: match, user: background, want: "mutate-existing work/existing"},
		{name: "downstream changed", op: "UPDATE", old: downstream("generate", "work"), new: `"x":"y"`, want: "generate work/generate for v1 ConfigMap shop/t"},
		{name: "downstream deleted", op: "DELETE", old: downstream("generate", "work"), want: "generate work/generate for v1 ConfigMap shop/t"},
		{name: "downstream changed by the background controller", op: "UPDATE", old: downstream("generate", "work"), new: `"x":"y"`, user: background},
		{name: "downstream of another rule", op: "UPDATE", old: downstream("gone", "work"), new: `"x":"y"`},
		{name: "downstream of another policy", op: "UPDATE", old: downstream("generate", "gone"), new: `"x":"y"`},
		{name: "labels of another user", op: "UPDATE", old: strings.Replace(downstream("generate", "work"), `"kyverno"`, `"me"`, 1), new: `"x":"y"`},
		{name: "source changed", op: "UPDATE", old: source, new: source, want: "generate work/copy of source"},
		{name: "source deleted", op: "DELETE", old: source, want: "delete-downstream work/copy of source"},
		{name: "source, dry run", op: "DELETE", old: source, dryRun: true},
		{name: "trigger and source", op: "UPDATE", old: source + "," + copied, new: copied, want: "generate work/copy, generate work/copy of source, generate work/generate"},
	} {
		body := configMap("", func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.DryRun = c.op, &c.dryRun
			r.Object.Raw, r.OldObject.Raw = nil, nil
			if c.new != "" {
				r.Object.Raw = object(c.new)
			}
			if c.old != "" {
				r.OldObject.Raw = object(c.old)
			}
			if c.user != "" {
				r.UserInfo.Username = c.user
			}
		})
		path := c.path
		if path == "" {
			path = "/validate/fail"
		}
		if code, res := postReview(t, srv, path, body); code != 200 || !res.Allowed || len(res.Warnings) > 0 {
			t.Errorf("%s: %d %+v", c.name, code, res)
		}
		if got := k.drain(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	// Work that could not be written is a warning in the answer, which stays the same.
	k.warn = []string{"policy work: its work is delayed"}
	if _, res := postReview(t, srv, "/validate/fail", configMap(`,"labels":{"team":"a"}`)); !res.Allowed || len(res.Warnings) != 1 || res.Warnings[0] != k.warn[0] {
		t.Errorf("%+v", res)
	}
	k.drain()
	// A denied request causes no work, since its object will not exist.
	if _, res := postReview(t, srv, "/validate", configMap(`,"labels":{"team":"a","blocked":"yes"}`)); res.Allowed || k.drain() != "" {
		t.Errorf("%+v", res)
	}
	// Without a controller that executes work, no rule is evaluated for it.
	srv.Deferred = nil
	if code, res := postReview(t, srv, "/validate/fail", configMap(`,"labels":{"team":"a"}`)); code != 200 || !res.Allowed {
		t.Errorf("%d %+v", code, res)
	}
}

// Work of a policy with its own webhook is caused only by reviews of that webhook.
func TestDeferredWorkOfOwnWebhook(t *testing.T) {
	own := strings.Replace(strings.Split(workPolicies, "---\n")[0], "spec:\n", "spec:\n  webhookConfiguration: {matchConditions: [{name: always, expression: 'true'}]}\n", 1)
	srv, _ := setup(t, fakeCluster{labels: map[string]map[string]string{"shop": nil}}, nil, own)
	k := &kept{}
	srv.Deferred = k
	source := configMap("", func(r *admissionv1.AdmissionRequest) {
		r.Operation = "UPDATE"
		r.OldObject.Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"shop","labels":{"generate.kyverno.io/clone-source":""}}}`)
	})
	for path, want := range map[string]string{"/validate/fail": "", "/validate/fail/finegrained/work": "generate work/copy of source", "/validate/fail/finegrained/other": ""} {
		if postReview(t, srv, path, source); k.drain() != want {
			t.Errorf("%s: not %q", path, want)
		}
	}
}

// A rule with work that cannot be evaluated causes no work, changes no answer, and is reported.
func TestDeferredWorkThatCannotBeEvaluated(t *testing.T) {
	srv, log := setup(t, fakeCluster{}, nil, `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: work}
spec:
  rules:
  - name: generate
    match: {any: [{resources: {kinds: [ConfigMap], namespaceSelector: {matchLabels: {a: b}}}}]}
    generate: {apiVersion: v1, kind: Secret, name: s, namespace: shop, data: {type: Opaque}}
`)
	k := &kept{}
	var reported []policy.Result
	srv.Deferred, srv.Report = k, func(_ *policy.Request, results []policy.Result, refused bool) {
		if !refused {
			reported = append(reported, results...)
		}
	}
	code, res := postReview(t, srv, "/validate/fail", configMap(team))
	if code != 200 || !res.Allowed || k.drain() != "" || len(reported) != 1 || reported[0].Status != policy.StatusError || !strings.Contains(log.String(), "no namespace shop") {
		t.Errorf("%d %+v, %+v\n%s", code, res, reported, log)
	}
}

// An exemption from a policy that reports them causes no work, and is reported as the exception says.
func TestDeferredWorkExempt(t *testing.T) {
	srv, _ := setup(t, fakeCluster{labels: map[string]map[string]string{"shop": nil}}, nil, `
apiVersion: policies.kyverno.io/v1
kind: GeneratingPolicy
metadata: {name: work}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  generate: [{expression: "generator.apply('shop', [object])"}]
`, `
apiVersion: policies.kyverno.io/v1
kind: PolicyException
metadata: {name: exempt, namespace: shop}
spec:
  policyRefs: [{kind: GeneratingPolicy, name: work}]
  matchConditions: [{name: exempt, expression: "has(object.metadata.labels) && 'exempt' in object.metadata.labels"}]
`)
	k := &kept{}
	var reported []policy.Result
	srv.Deferred, srv.Report = k, func(_ *policy.Request, results []policy.Result, _ bool) { reported = append(reported, results...) }
	if code, res := postReview(t, srv, "/gpol/work", configMap(`,"labels":{"exempt":"yes"}`)); code != 200 || !res.Allowed || k.drain() != "" {
		t.Errorf("%d %+v", code, res)
	}
	if len(reported) != 1 || reported[0].Status != policy.StatusSkip || reported[0].Message != "rule is skipped due to policy exception: shop/exempt" {
		t.Errorf("reported %+v", reported)
	}
	reported = nil
	if _, res := postReview(t, srv, "/gpol/work", configMap("")); !res.Allowed || k.drain() != "generate work/work" || len(reported) > 0 {
		t.Errorf("%+v; reported %+v", res, reported)
	}
}

func TestProtectManaged(t *testing.T) {
	const managed = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","labels":{"app.kubernetes.io/managed-by":"kyverno"}}}`
	const free = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`
	srv, _ := setup(t, fakeCluster{}, map[string]string{"excludeUsernames": "*"})
	srv.ProtectManaged = true
	for _, c := range []struct {
		name     string
		op       admissionv1.Operation
		old, new string
		user     string
		allowed  bool
	}{
		{"labelled", "CREATE", "", managed, "jane", false},
		{"free", "CREATE", "", free, "jane", true},
		{"label taken away", "UPDATE", managed, free, "jane", false},
		{"label added", "UPDATE", free, managed, "jane", false},
		{"deleted", "DELETE", managed, "", "jane", false},
		{"ours", "UPDATE", managed, free, "system:serviceaccount:kyverno:any", true},
		{"of a namespace that begins the same", "UPDATE", managed, free, "system:serviceaccount:kyverno2:any", false},
		{"the namespace controller deletes", "DELETE", managed, "", namespaceController, true},
		{"the namespace controller changes", "UPDATE", managed, free, namespaceController, false},
	} {
		body := configMap("", func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.UserInfo.Username = c.op, c.user
			r.Object.Raw, r.OldObject.Raw = []byte(c.new), []byte(c.old)
			if c.new == "" {
				r.Object.Raw = nil
			}
			if c.old == "" {
				r.OldObject.Raw = nil
			}
		})
		// Protection precedes the exclude lists, and also applies in mutating reviews, which deletions never reach.
		for _, path := range []string{"/validate/fail", "/mutate/fail"} {
			code, res := postReview(t, srv, path, body)
			allowed := c.allowed || path == "/mutate/fail" && c.op == "DELETE"
			if code != 200 || res.Allowed != allowed || !allowed && res.Result.Message != "A kyverno managed resource can only be modified by kyverno" {
				t.Errorf("%s, %s: %d %+v", c.name, path, code, res)
			}
		}
		srv.ProtectManaged = false
		if _, res := postReview(t, srv, "/validate/fail", body); !res.Allowed {
			t.Errorf("%s: protected without the flag", c.name)
		}
		srv.ProtectManaged = true
	}
}

func TestDumpPayload(t *testing.T) {
	srv, log := setup(t, fakeCluster{}, nil, enforced("Fail"))
	postReview(t, srv, "/validate/fail", configMap(""))
	if log.String() != "" {
		t.Errorf("dumped without the flag: %s", log)
	}
	srv.DumpPayload = true
	postReview(t, srv, "/validate/fail", configMap(""))
	if log.String() != "" {
		t.Errorf("dumped below its level: %s", log)
	}
	srv.Log = debugging(log)
	postReview(t, srv, "/validate/fail", configMap(`,"annotations":{"find":"me"}`))
	for _, want := range []string{"path=/validate/fail", `\"find\":\"me\"`, "allowed=false", "label team is required", "operation=CREATE", "uid=uid-1"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the dump has no %s:\n%s", want, log)
		}
	}
	secret := configMap("", func(r *admissionv1.AdmissionRequest) {
		r.Kind.Kind = "Secret"
		r.Object.Raw = []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{hush}"}},"data":{"key":"hush"},"stringData":{"other":"hush"}}`)
		r.OldObject.Raw = r.Object.Raw
	})
	postReview(t, srv, "/validate/fail", secret)
	if text := log.String(); strings.Contains(text, "hush") || !strings.Contains(text, "REDACTED") || !strings.Contains(text, "stringData") {
		t.Errorf("%s", text)
	}
	if p := srv.dumpedPatch(&policy.Request{}, &response{patch: json.RawMessage(`[]`)}); p != "[]" {
		t.Errorf("%q", p)
	}
}
