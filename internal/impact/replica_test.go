package impact

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiadmission "k8s.io/apiserver/pkg/admission"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/admission"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/webhookconf"
	"ephor.invalid/ephor/internal/world/fixed"
)

// generator makes policies and requests.
type generator struct{ *rand.Rand }

func (g generator) one(of ...string) string { return of[g.IntN(len(of))] }

// policies returns some policies of both families.
func (g generator) policies() (out []string) {
	for i := range 1 + g.IntN(5) {
		name := fmt.Sprintf("p%d", i)
		switch g.IntN(9) {
		case 0, 1:
			out = append(out, g.classic(name, `
    validate:
      message: a team is needed in {{request.namespace}}
      `+g.one(`pattern: {metadata: {labels: {team: "?*"}}}`,
				`deny: {conditions: {any: [{key: "{{request.operation}}", operator: AnyIn, value: [UPDATE, DELETE]}]}}`,
				`deny: {conditions: {any: [{key: "{{request.userInfo.username}}", operator: Equals, value: eve}]}}`,
				`pattern: {metadata: {labels: {"{{ missing }}": x}}}`)))
		case 2:
			out = append(out, g.classic(name, `
    mutate:
      `+g.one(`patchStrategicMerge: {metadata: {labels: {+(team): added, by: "{{request.userInfo.username}}"}}}`,
				`patchesJson6902: "- {op: add, path: /metadata/labels/added, value: yes-it-was}"`,
				`patchStrategicMerge: {metadata: {annotations: {seen: "{{ request.object.metadata.labels.team || 'none' }}"}}}`)))
		case 3:
			out = append(out, g.classic(name, `
    context: [{name: teams, configMap: {name: teams, namespace: default}}]
    validate:
      message: not a known team
      deny: {conditions: {any: [{key: "{{ request.object.metadata.labels.team || '' }}", operator: AnyNotIn, value: "{{ teams.data.list }}"}]}}`))
		case 4, 5:
			out = append(out, `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: `+name+`}
spec:
  validationActions: `+g.one("[Deny]", "[Audit]", "[Warn]", "[Deny, Warn]", "[]")+`
  failurePolicy: `+g.one("Fail", "Ignore")+`
  matchConstraints: {resourceRules: [`+g.celRule()+`]}
`+g.one("", "  matchConditions: [{name: c, expression: 'request.userInfo.username != \"root\"'}]\n", "  matchConditions: [{name: c, expression: 'object.metadata.labels.team == \"a\"'}]\n")+`  validations:
  - `+g.one(`{expression: "object == null || has(object.metadata.labels) && 'team' in object.metadata.labels", message: a team is needed}`,
				`{expression: "object.metadata.labels.team != 'b'", messageExpression: "'not ' + object.metadata.labels.team"}`,
				`{expression: "request.operation != 'UPDATE' || oldObject.metadata.name == object.metadata.name"}`))
		case 6:
			out = append(out, `
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: `+name+`}
spec:
  failurePolicy: `+g.one("Fail", "Ignore")+`
  matchConstraints: {resourceRules: [`+g.celRule()+`]}
  mutations:
  - `+g.one(`{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: Object.metadata.labels{cel: 'set'}}}"}}`,
				`{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'by': request.userInfo.username}}]"}}`))
		case 7:
			out = append(out, strings.Replace(strings.Replace(g.classic(name, `
    validate: {message: own, pattern: {metadata: {labels: {own: "?*"}}}}`), "kind: ClusterPolicy", "kind: Policy", 1), "{name: "+name+"}", "{name: "+name+", namespace: "+g.one("default", "shop")+"}", 1))
			out[len(out)-1] = strings.Replace(out[len(out)-1], ", namespaces: [shop]", "", 1)
		case 8:
			out = append(out, g.classic(name, `
    validate: {cel: {expressions: [{expression: "!has(object.metadata.labels) || !('bad' in object.metadata.labels)", message: bad}]}}`))
		}
	}
	return out
}

func (g generator) celRule() string {
	return g.one(`{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods, configmaps]}`,
		`{apiGroups: [apps], apiVersions: [v1], operations: ["*"], resources: [deployments]}`,
		`{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE, DELETE], resources: ["*"]}`)
}

// classic returns a ClusterPolicy with one rule.
func (g generator) classic(name, rule string) string {
	return `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: ` + name + `}
spec:
  background: false
  validationFailureAction: ` + g.one("Enforce", "Audit") + `
  failurePolicy: ` + g.one("Fail", "Ignore") + `
` + g.one("", "", "  emitWarning: true\n") + g.one("", "", "", "  webhookConfiguration: {matchConditions: [{name: c, expression: 'request.operation != \"DELETE\"'}]}\n") + `
  rules:
  - name: r
    match: {any: [{resources: {kinds: [` + g.one("Pod", "ConfigMap", "Deployment", "Pod, ConfigMap", `"*"`) + `]` + g.one("", "", ", operations: [CREATE]", ", operations: [CREATE, DELETE]", ", namespaces: [shop]") + `}}]}
` + g.one("", "", "    exclude: {any: [{subjects: [{kind: User, name: root}]}]}\n", "    preconditions: {all: [{key: \"{{request.object.metadata.name || 'none'}}\", operator: NotEquals, value: skip}]}\n") + strings.TrimPrefix(rule, "\n") + "\n"
}

// review returns a random AdmissionReview.
func (g generator) review() *admissionv1.AdmissionReview {
	kinds := []struct {
		gvk      schema.GroupVersionKind
		resource string
		body     string
	}{
		{schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, "pods", `"spec":{"containers":[{"name":"c","image":"nginx","resources":{"limits":{"cpu":1}}}]}`},
		{schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "configmaps", `"data":{"a":"b"}`},
		{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, "deployments", `"spec":{"replicas":3,"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"nginx"}]}}}`},
		{schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, "namespaces", `"spec":{}`},
	}
	k := kinds[g.IntN(len(kinds))]
	namespace := g.one("default", "shop", "shop", "kube-system")
	name := g.one("a", "b", "skip")
	where := `,"namespace":"` + namespace + `"`
	if k.resource == "namespaces" {
		where, namespace = "", name
	}
	object := func() string {
		return `{"apiVersion":"` + k.gvk.GroupVersion().String() + `","kind":"` + k.gvk.Kind + `","metadata":{"name":"` + name + `"` + where +
			g.one("", `,"labels":{"team":"a"}`, `,"labels":{"team":"b","bad":"1"}`, `,"labels":{"own":"x"}`) + `},` + k.body + `}`
	}
	dry := g.IntN(8) == 0
	gvk := metav1.GroupVersionKind{Group: k.gvk.Group, Version: k.gvk.Version, Kind: k.gvk.Kind}
	gvr := metav1.GroupVersionResource{Group: k.gvk.Group, Version: k.gvk.Version, Resource: k.resource}
	q := &admissionv1.AdmissionRequest{
		UID: "u", Kind: gvk, RequestKind: &gvk, Resource: gvr, RequestResource: &gvr, Name: name, Namespace: namespace, DryRun: &dry,
		Operation: admissionv1.Operation(g.one("CREATE", "CREATE", "UPDATE", "DELETE")),
	}
	q.UserInfo.Username = g.one("jane", "eve", "root")
	q.UserInfo.Groups = []string{"system:authenticated"}
	if q.Operation != admissionv1.Delete {
		q.Object.Raw = []byte(object())
	}
	if q.Operation != admissionv1.Create {
		q.OldObject.Raw = []byte(object())
	}
	return &admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: q}
}

// served has the resources of the API server of the tests.
var served = discovery.List{
	{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true, Preferred: true, Listable: true, Readable: true},
	{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true, Preferred: true, Listable: true, Readable: true},
	{Version: "v1", Resource: "namespaces", Kind: "Namespace", Preferred: true, Listable: true, Readable: true},
	{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespaced: true, Preferred: true, Listable: true, Readable: true},
}

// cluster answers the lookups of a server.
type cluster struct{ discovery.List }

func (cluster) Roles(context.Context, *policy.User, string) (policy.Roles, error) {
	return policy.Roles{ClusterRoles: []string{"view"}}, nil
}
func (cluster) NamespaceLabels(_ context.Context, ns string) (map[string]string, error) {
	return map[string]string{"kubernetes.io/metadata.name": ns}, nil
}
func (cluster) BodyOf(string) []string { return nil }
func (c cluster) KindFor(_ context.Context, gvr schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	for _, r := range c.List {
		if r.GVR() == gvr {
			return r.GVK(), nil
		}
	}
	return schema.GroupVersionKind{}, fmt.Errorf("no %s", gvr)
}

// compileAll compiles the policies that could be in force.
func compileAll(t testing.TB, texts []string) (programs []*policy.Program) {
	t.Helper()
	for _, text := range texts {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err, text)
		}
		p, diags := compile.One(compile.Object{Value: object})
		if diags.HasErrors() {
			continue // admission would refuse the policy
		}
		programs = append(programs, p)
	}
	return programs
}

// teams returns the values that rules look up on both sides.
func teams() fixed.Values {
	return fixed.Values{Objects: func() ([]map[string]any, error) {
		return []map[string]any{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "teams", "namespace": "default"}, "data": map[string]any{"list": `["a"]`}}}, nil
	}}
}

// apiServer sends requests to the webhooks of a replica over HTTP, with the API server's own matching.
type apiServer struct {
	t        *testing.T
	handler  http.Handler
	webhooks webhookconf.Configurations
	matchers map[string]matchconditions.Matcher // by their expressions
	seen     func(path string, review []byte)   // receives each review that is sent; nil for none
}

func newAPIServer(t *testing.T, programs []*policy.Program) *apiServer {
	cat := catalog.New()
	cat.Set(programs...)
	srv := admission.New(admission.Options{Namespace: "kyverno", Timeout: 10 * time.Second, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: time.Now},
		cat.Snapshot, &settings.Store{}, fixed.New(teams()), cluster{served}, func() error { return nil })
	srv.Open()
	want, _, _, err := webhookconf.Desired(webhookconf.Input{
		Programs: cat.Snapshot().Programs(), Settings: settings.Defaults(), Resources: served,
		Options: webhookconf.Options{Namespace: "kyverno", Service: "s", ServicePort: 443, TimeoutSeconds: 10, AdmissionReports: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &apiServer{t: t, handler: srv, webhooks: want, matchers: map[string]matchconditions.Matcher{}}
}

// answered is the result that the API server computes from the answers.
type answered struct {
	allowed  bool
	message  string
	warnings []string
	object   string
	errors   int
}

var conditionCompiler = celplugin.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))

// selects is the API server's own decision whether to call a webhook.
func (a *apiServer) selects(w *admissionregistrationv1.ValidatingWebhook, q *admissionv1.AdmissionRequest) (bool, error) {
	decode := func(raw []byte) runtime.Object {
		if raw == nil {
			return nil
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(raw); err != nil {
			a.t.Fatal(err)
		}
		return o
	}
	gvk := schema.GroupVersionKind(q.Kind)
	namespace := q.Namespace
	attributes := apiadmission.NewAttributesRecord(decode(q.Object.Raw), decode(q.OldObject.Raw), gvk, namespace, q.Name, schema.GroupVersionResource(q.Resource), "",
		apiadmission.Operation(q.Operation), nil, *q.DryRun, &user.DefaultInfo{Name: q.UserInfo.Username, Groups: q.UserInfo.Groups})
	if !slices.ContainsFunc(w.Rules, func(r admissionregistrationv1.RuleWithOperations) bool {
		m := rules.Matcher{Rule: r, Attr: attributes}
		return m.Matches()
	}) {
		return false, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector)
	if err != nil {
		a.t.Fatal(err)
	}
	set := labels.Set{"kubernetes.io/metadata.name": namespace}
	if !selector.Matches(set) {
		return false, nil
	}
	if len(w.MatchConditions) == 0 {
		return true, nil
	}
	var accessors []celplugin.ExpressionAccessor
	key := ""
	for _, c := range w.MatchConditions {
		accessors = append(accessors, &matchconditions.MatchCondition{Name: c.Name, Expression: c.Expression})
		key += c.Expression + "\n"
	}
	matcher := a.matchers[key]
	if matcher == nil {
		fail := admissionregistrationv1.Fail
		matcher = matchconditions.NewMatcher(conditionCompiler.CompileCondition(accessors, celplugin.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions), &fail, "webhook", "x", "y")
		a.matchers[key] = matcher
	}
	got := matcher.Match(a.t.Context(), &apiadmission.VersionedAttributes{Attributes: attributes, VersionedKind: gvk, VersionedObject: apiadmission.NewLazyObject(attributes.GetObject()), VersionedOldObject: apiadmission.NewLazyObject(attributes.GetOldObject())}, nil, nil)
	return got.Matches, got.Error
}

// admit sends a request through all webhooks.
func (a *apiServer) admit(review *admissionv1.AdmissionReview) answered {
	out := answered{allowed: true}
	review = review.DeepCopy()
	q := review.Request
	call := func(w *admissionregistrationv1.ValidatingWebhook) (called, changed bool) {
		fails := *w.FailurePolicy == admissionregistrationv1.Fail
		ok, err := a.selects(w, q)
		if err == nil && !ok {
			return false, false
		}
		var response *admissionv1.AdmissionResponse
		if err == nil {
			body, _ := json.Marshal(review)
			if a.seen != nil {
				a.seen(*w.ClientConfig.Service.Path, body)
			}
			r := httptest.NewRequest(http.MethodPost, *w.ClientConfig.Service.Path, bytes.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			rec := httptest.NewRecorder()
			a.handler.ServeHTTP(rec, r)
			var got admissionv1.AdmissionReview
			if rec.Code != http.StatusOK {
				err = fmt.Errorf("%d: %s", rec.Code, rec.Body)
			} else if err = json.Unmarshal(rec.Body.Bytes(), &got); err == nil {
				response = got.Response
			}
		}
		if err != nil {
			out.errors++
			if fails {
				out.allowed = false
			}
			return true, false
		}
		out.warnings = append(out.warnings, response.Warnings...)
		if !response.Allowed {
			if out.allowed {
				out.message = response.Result.Message
			}
			out.allowed = false
			return true, false
		}
		if len(response.Patch) > 0 {
			p, err := jsonpatch.DecodePatch(response.Patch)
			if err != nil {
				a.t.Fatal(err)
			}
			if q.Object.Raw, err = p.Apply(q.Object.Raw); err != nil {
				a.t.Fatal(err)
			}
			return true, true
		}
		return true, false
	}
	var asked, again []*admissionregistrationv1.ValidatingWebhook
	never := map[*admissionregistrationv1.ValidatingWebhook]bool{}
	pass := func(hooks []*admissionregistrationv1.ValidatingWebhook) {
		for _, w := range hooks {
			called, changed := call(w)
			if !out.allowed {
				return
			}
			if changed {
				again, asked = append(again, asked...), nil
			}
			if called && !never[w] {
				asked = append(asked, w)
			}
		}
	}
	var mutating []*admissionregistrationv1.ValidatingWebhook
	slices.SortFunc(a.webhooks.Mutating, func(x, y *admissionregistrationv1.MutatingWebhookConfiguration) int {
		return strings.Compare(x.Name, y.Name)
	})
	for _, c := range a.webhooks.Mutating {
		for i := range c.Webhooks {
			w := &c.Webhooks[i]
			if webhookconf.IsResource(c.Name) {
				mutating = append(mutating, &admissionregistrationv1.ValidatingWebhook{Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, NamespaceSelector: w.NamespaceSelector, MatchConditions: w.MatchConditions})
				never[mutating[len(mutating)-1]] = *w.ReinvocationPolicy == admissionregistrationv1.NeverReinvocationPolicy
			}
		}
	}
	if pass(mutating); out.allowed && len(again) > 0 {
		second := again
		again = nil
		pass(second)
	}
	if !out.allowed {
		return out
	}
	slices.SortFunc(a.webhooks.Validating, func(x, y *admissionregistrationv1.ValidatingWebhookConfiguration) int {
		return strings.Compare(x.Name, y.Name)
	})
	for _, c := range a.webhooks.Validating {
		for i := range c.Webhooks {
			if webhookconf.IsResource(c.Name) {
				call(&c.Webhooks[i])
			}
		}
	}
	if q.Object.Raw != nil {
		out.object = canonical(a.t, q.Object.Raw)
	}
	return out
}

func canonical(t *testing.T, raw []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestAnswersAreThoseOfAReplica checks that impact gives the answers of a replica with the policies in force, for random policies of both
// families and random requests. One side uses the API server's own matching of webhooks and HTTP, the other the recorded reviews.
func TestAnswersAreThoseOfAReplica(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 40
	}
	seen := map[string]int{}
	for seed := range uint64(rounds) {
		g := generator{rand.New(rand.NewPCG(seed, 19))}
		texts := g.policies()
		programs := compileAll(t, texts)
		api := newAPIServer(t, programs)
		cat := catalog.New()
		cat.Set(programs...)
		replica := NewReplica(cat.Snapshot().Programs(), Options{Root: fixed.New(teams()), Labels: cluster{}.NamespaceLabels, Roles: cluster{}.Roles})
		var recorded, decisions bytes.Buffer
		var want []answered
		feed := recordingTo(&decisions)
		for i := range 30 {
			r := g.review()
			text, _ := json.Marshal(r)
			recorded.Write(append(text, '\n'))
			want = append(want, api.admit(r))
			feed.Put(reviewed(t, string(text), time.Unix(int64(i)*60, 0)))
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		feed.Run(ctx)
		i := 0
		for record := range concat(Reviews("requests.jsonl", &recorded), Decisions(time.Time{}, DecisionFile("decisions.jsonl", &decisions))) {
			if i == len(want) { // the second half is the same requests, as the admission controller recorded them
				want = append(want, want...)
			}
			req, err := record.Request()
			if err != nil {
				t.Fatal(err)
			}
			got, err := replica.Answer(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			have, w := haveOf(t, req, &got), want[i]
			if !sameAnswer(have, w) {
				t.Fatalf("seed %d, request %d:\nimpact  %+v\nreplica %+v\n%s\n%s", seed, i, have, w, strings.Join(texts, "---"), record.Text)
			}
			c := countsOf(&got)
			seen["refused"] += c.Refused
			seen["warned"] += c.Warned
			seen["changed"] += c.Changed
			seen["erred"] += c.Erred
			seen["violating"] += c.Violating
			seen["failed webhooks"] += have.errors
			i++
		}
		if i != len(want) {
			t.Fatalf("%d of %d records were read", i, len(want))
		}
	}
	t.Logf("%v", seen)
	for _, class := range []string{"refused", "warned", "changed", "erred", "violating", "failed webhooks"} {
		if seen[class] < 10 {
			t.Errorf("only %d requests are %s: the test proves little", seen[class], class)
		}
	}
}

// haveOf returns a verdict in the form of the API server's result.
func haveOf(t *testing.T, req *policy.Request, got *Verdict) answered {
	t.Helper()
	have := answered{allowed: got.Allowed, warnings: got.Warnings, errors: len(got.Failures)}
	if !got.Allowed && len(got.Failures) == 0 {
		have.message = got.Message
	}
	if got.Allowed && req.Object != nil {
		o := req.Object.Whole()
		if got.Object != nil {
			o = got.Object
		}
		v, err := o.Value()
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := json.Marshal(v)
		have.object = canonical(t, raw)
	}
	return have
}

// sameAnswer compares an answer with that of a replica.
func sameAnswer(have, want answered) bool {
	if !want.allowed {
		want.object = ""
	}
	if want.errors > 0 && !want.allowed {
		want.message, have.message = "", "" // the API server writes the message about a failed webhook
	}
	return fmt.Sprintf("%+v", have) == fmt.Sprintf("%+v", want)
}

// BenchmarkRun measures impact on recorded reviews of Pods: it reads and decodes them, matches the webhooks, evaluates eighteen policies and
// counts.
func BenchmarkRun(b *testing.B) {
	files, err := filepath.Glob("../../examples/pod-security/*.yaml")
	if err != nil || len(files) == 0 {
		b.Fatal("no policies", err)
	}
	var texts []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			b.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"shop","annotations":{"padding":"` + strings.Repeat("x", 6500) + `"}},"spec":{"containers":[{"name":"c","image":"nginx"}]}}`
	after := NewReplica(compileAll(b, texts), Options{})
	recorded := strings.Repeat(reviewText(pod)+"\n", b.N)
	c := NewCollector(after, nil, 5)
	b.SetBytes(int64(len(reviewText(pod))))
	b.ReportAllocs()
	b.ResetTimer()
	if err := Run(b.Context(), Reviews("f", strings.NewReader(recorded)), after, nil, c); err != nil {
		b.Fatal(err)
	}
	if r := c.Report(b.Context(), Facts{}); r.Matched != b.N {
		b.Fatalf("%d of %d requests matched", r.Matched, b.N)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
