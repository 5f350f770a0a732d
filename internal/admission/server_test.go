package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
)

// fakeCluster returns what a test sets.
type fakeCluster struct {
	roles      policy.Roles
	labels     map[string]map[string]string
	kinds      map[string]string // resource → kind
	clusterish []string          // kinds that are not namespaced
	bodies     map[string][]string
	err        error
}

func (f fakeCluster) Roles(context.Context, *policy.User, string) (policy.Roles, error) {
	return f.roles, f.err
}
func (f fakeCluster) NamespaceLabels(_ context.Context, ns string) (map[string]string, error) {
	if l, ok := f.labels[ns]; ok {
		return l, nil
	}
	return nil, fmt.Errorf("no namespace %s", ns)
}
func (f fakeCluster) KindFor(_ context.Context, r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	if k, ok := f.kinds[r.Resource]; ok {
		return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: k}, nil
	}
	return schema.GroupVersionKind{}, fmt.Errorf("the API server serves no %s", r.Resource)
}
func (f fakeCluster) Find(t policy.Target) ([]discovery.Resource, error) {
	var all discovery.List
	add := func(resource, kind string) {
		all = append(all, discovery.Resource{
			Group: strings.Trim(t.Group, "*"), Version: "v1", Resource: resource, Kind: kind, Namespaced: !slices.Contains(f.clusterish, kind),
		})
		status := all[len(all)-1]
		status.Subresource = "status"
		all = append(all, status)
	}
	for resource, kind := range f.kinds {
		add(resource, kind)
	}
	for _, kind := range f.clusterish {
		if !slices.Contains(slices.Collect(maps.Values(f.kinds)), kind) {
			add(strings.ToLower(kind)+"s", kind)
		}
	}
	t.Version = "*"
	found, _ := all.Find(t)
	if len(found) == 0 {
		return nil, f.err
	}
	return found, nil
}
func (f fakeCluster) BodyOf(kind string) []string { return f.bodies[kind] }

// syncBuffer is a log for concurrent writers.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}
func (s *syncBuffer) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }

// setup returns a Server with policies, and its log.
func setup(t testing.TB, c fakeCluster, config map[string]string, policies ...string) (*Server, *syncBuffer) {
	t.Helper()
	cat := catalog.New()
	for _, text := range policies {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		if compile.OwnsException(object["apiVersion"].(string), object["kind"].(string)) {
			e, diags := compile.OneException(compile.Object{Value: object})
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			cat.SetException(e)
			continue
		}
		p, diags := compile.One(compile.Object{Value: object})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		cat.Set(p)
	}
	store := &settings.Store{}
	s, diags := settings.Parse(config)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	store.Set(s)
	log := &syncBuffer{}
	if c.kinds == nil {
		c.kinds = map[string]string{"pods": "Pod", "configmaps": "ConfigMap", "deployments": "Deployment"}
	}
	srv := New(Options{
		Namespace: "kyverno", Timeout: 10 * time.Second, AuditWorkers: 2, AuditCapacity: 10,
		Log: slog.New(slog.NewTextHandler(log, nil)), Now: func() time.Time { return time.Unix(0, 0) },
	}, cat.Snapshot, store, nil, c, func() error { return nil })
	srv.audits.start()
	srv.Open()
	return srv, log
}

const teamPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: require-team}
spec:
  failurePolicy: %s
  emitWarning: %t
  rules:
  - name: team
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate:
      failureAction: %s
      message: "label team is required"
      pattern: {metadata: {labels: {team: "?*"}}}
`

func enforced(failurePolicy string) string {
	return fmt.Sprintf(teamPolicy, failurePolicy, false, "Enforce")
}

const denied = "\n\nresource ConfigMap/shop/c was blocked due to the following policies \n\nrequire-team:\n  team: 'validation error: label team is required. rule team failed at path /metadata/labels/'\n"

// configMap returns a review of a ConfigMap.
func configMap(labels string, change ...func(*admissionv1.AdmissionRequest)) []byte {
	r := typedReview()
	q := r.Request
	q.Kind.Group, q.Kind.Kind, q.Resource.Group, q.Resource.Resource = "", "ConfigMap", "", "configmaps"
	q.SubResource, q.Name, q.Operation = "", "c", admissionv1.Create
	q.Object.Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"shop"` + labels + `}}`)
	q.OldObject.Raw = nil
	off := false
	q.DryRun = &off
	for _, f := range change {
		f(q)
	}
	b, _ := json.Marshal(r)
	return b
}

const team = `,"labels":{"team":"a"}`

func postReview(t testing.TB, s http.Handler, path string, body []byte) (int, admissionv1.AdmissionResponse) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	var out admissionv1.AdmissionReview
	if w.Code != http.StatusOK {
		return w.Code, admissionv1.AdmissionResponse{}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.Response == nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return w.Code, *out.Response
}

func TestRoutes(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil, enforced("Fail"))
	own := enforced("Ignore")
	fine, _ := setup(t, fakeCluster{}, nil, own+"  webhookConfiguration: {matchConditions: [{name: always, expression: 'true'}]}\n")
	for _, c := range []struct {
		server  *Server
		path    string
		allowed bool
	}{
		{srv, "/validate", false}, {srv, "/validate/fail", false}, {srv, "/validate/fail?timeout=5s", false}, {srv, "/validate/ignore", true},
		{srv, "/mutate", true}, {srv, "/mutate/fail", true},
		{fine, "/validate/ignore", true}, {fine, "/validate/ignore/finegrained/require-team", false},
		{fine, "/validate/ignore/finegrained/other", true}, {fine, "/validate/ignore/finegrained/ns/require-team", true},
	} {
		code, res := postReview(t, c.server, c.path, configMap(""))
		if code != 200 || res.Allowed != c.allowed || res.UID != "uid-1" {
			t.Errorf("%s: %d %+v", c.path, code, res)
		}
		if !c.allowed && (res.Result == nil || res.Result.Message != denied) {
			t.Errorf("%s: message %q", c.path, res.Result.Message)
		}
		if code, res := postReview(t, c.server, c.path, configMap(team)); code != 200 || !res.Allowed {
			t.Errorf("%s with the label: %d %+v", c.path, code, res)
		}
	}
	for _, path := range []string{"/", "/validate/other", "/validate/finegrained/x", "/validate/fail/finegrained/", "/validate/fail/finegrained/a/b/c", "/other/x"} {
		if code, _ := postReview(t, srv, path, configMap("")); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// Paths of Kyverno's families never get 404: requests for families that are not evaluated are admitted with a warning, and counted.
func TestPathsOfFamilies(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil)
	for _, path := range []string{"/dpol/a", "/ndpol/a/b", "/xpol"} {
		code, res := postReview(t, srv, path, configMap(""))
		if code != http.StatusOK || !res.Allowed || len(res.Warnings) != 1 || !strings.Contains(res.Warnings[0], "evaluates no policies") {
			t.Errorf("%s: %d %+v", path, code, res)
		}
	}
	for _, path := range []string{"/policy/a", "/longerpol/a", "/Xpol/a", "/pol-x/a"} {
		if code, _ := postReview(t, srv, path, configMap("")); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// A process that has not read the policies admits no request.
func TestNothingIsEvaluatedBeforeOpen(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil)
	srv.open.Store(false)
	if code, _ := postReview(t, srv, "/validate/fail", configMap("")); code != http.StatusServiceUnavailable {
		t.Errorf("%d", code)
	}
}

// A policy with a webhook of its own denies nothing once it is deleted, also while the webhook is still called.
func TestFineGrainedPolicyThatIsGone(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil, enforced("Fail"))
	if code, res := postReview(t, srv, "/validate/fail/finegrained/deleted", configMap("")); code != http.StatusOK || !res.Allowed {
		t.Errorf("%d %+v", code, res)
	}
}

func TestBadRequests(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil)
	for _, c := range []struct {
		method, contentType, body string
		want                      int
	}{
		{"POST", "application/json", "", http.StatusBadRequest},
		{"POST", "text/plain", "{}", http.StatusUnsupportedMediaType},
		{"POST", "application/json; charset=utf-8", "{}", http.StatusUnsupportedMediaType},
		{"POST", "application/json", "{", http.StatusExpectationFailed},
		{"POST", "application/json", `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, http.StatusBadRequest},
		{"PUT", "application/json", "{}", http.StatusMethodNotAllowed},
	} {
		for _, known := range []bool{true, false} { // with a Content-Length and without
			r := httptest.NewRequest(c.method, "/validate/fail", strings.NewReader(c.body))
			r.Header.Set("Content-Type", c.contentType)
			if !known {
				r.ContentLength = -1
			}
			w := httptest.NewRecorder()
			srv.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("%s %s %q: %d, want %d", c.method, c.contentType, c.body, w.Code, c.want)
			}
		}
	}
	r := httptest.NewRequest("POST", "/validate/fail", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = maxBody + 1
	w := httptest.NewRecorder()
	if srv.ServeHTTP(w, r); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a long body: %d", w.Code)
	}
}

func TestHealth(t *testing.T) {
	var problem error
	srv, _ := setup(t, fakeCluster{}, nil)
	srv.ready = func() error { return problem }
	get := func(path string) int {
		w := httptest.NewRecorder()
		srv.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Code
	}
	if get("/health/liveness") != 200 || get("/health/readiness") != 200 || get("/metrics") != 404 {
		t.Error("healthy")
	}
	problem = errors.New("no certificate")
	if get("/health/liveness") != 200 || get("/health/readiness") != 500 {
		t.Error("not ready")
	}
	problem = nil
	srv.draining.Store(true)
	if get("/health/readiness") != 500 {
		t.Error("a process that is stopping is not ready")
	}
}

// Each answer of a stopping server ends its connection: a review sent on a connection that the server is closing fails, since it is never
// repeated.
func TestDrainingEndsConnections(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil)
	server := httptest.NewServer(srv)
	defer server.Close()
	for _, draining := range []bool{false, true} {
		srv.draining.Store(draining)
		resp, err := http.Post(server.URL+"/validate/fail", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.Close != draining {
			t.Errorf("draining %v: the connection ends: %v", draining, resp.Close)
		}
	}
}

func TestFilters(t *testing.T) {
	srv, _ := setup(t, fakeCluster{roles: policy.Roles{ClusterRoles: []string{"ops"}}}, map[string]string{
		"resourceFilters": "[ConfigMap,kube-system,*]", "excludeGroups": "system:nodes", "excludeClusterRoles": "nobody-*",
	}, enforced("Fail"))
	for _, c := range []struct {
		name    string
		change  func(*admissionv1.AdmissionRequest)
		allowed bool
	}{
		{"evaluated", func(*admissionv1.AdmissionRequest) {}, false},
		{"filtered", func(r *admissionv1.AdmissionRequest) { r.Namespace = "kube-system" }, true},
		{"excluded group", func(r *admissionv1.AdmissionRequest) { r.UserInfo.Groups = []string{"system:nodes"} }, true},
	} {
		if code, res := postReview(t, srv, "/validate/fail", configMap("", c.change)); code != 200 || res.Allowed != c.allowed {
			t.Errorf("%s: %d %+v", c.name, code, res)
		}
	}
	// If roles cannot be resolved, the request is neither admitted nor denied: failurePolicy decides.
	srv.cluster = fakeCluster{err: errors.New("bindings are not cached")}
	if code, _ := postReview(t, srv, "/validate/fail", configMap("")); code != http.StatusInternalServerError {
		t.Errorf("unknown roles: %d", code)
	}
}

// evaluated records whether evaluations were dry runs.
type evaluated struct {
	unobserved
	mu  sync.Mutex
	dry []bool
}

func (j *evaluated) Evaluated(out *policy.Outcome) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.dry = append(j.dry, out.Request.DryRun)
}

func TestAuditIsRecordedAfterTheAnswer(t *testing.T) {
	srv, log := setup(t, fakeCluster{}, nil, fmt.Sprintf(teamPolicy, "Fail", false, "Audit"))
	seen := &evaluated{}
	srv.Observer = seen
	code, res := postReview(t, srv, "/validate/fail", configMap(""))
	if code != 200 || !res.Allowed || len(res.Warnings) > 0 {
		t.Fatalf("%d %+v", code, res)
	}
	postReview(t, srv, "/validate/fail", configMap(team))
	yes := true
	postReview(t, srv, "/validate/fail", configMap("", func(r *admissionv1.AdmissionRequest) { r.DryRun, r.Name = &yes, "dry" }))
	srv.audits.stop(t.Context())
	got := log.String()
	for _, want := range []string{"policy=require-team", "rule=team", "status=fail", "action=Audit", "kind=ConfigMap", "namespace=shop", "name=c", "label team is required"} {
		if !strings.Contains(got, want) {
			t.Errorf("the log does not hold %s:\n%s", want, got)
		}
	}
	if strings.Count(got, "policy violation") != 1 {
		t.Errorf("passes and dry runs are recorded:\n%s", got)
	}
	if !slices.Contains(seen.dry, true) || !slices.Contains(seen.dry, false) {
		t.Errorf("dry runs are not evaluated, and so not counted: %v", seen.dry)
	}
	srv.audits.add(audit{})
	if srv.AuditsDropped() != 1 {
		t.Error("an audit after the end is not counted")
	}
}

func TestAuditWarnings(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil, fmt.Sprintf(teamPolicy, "Fail", true, "Audit"))
	_, res := postReview(t, srv, "/validate/fail", configMap(""))
	want := "policy require-team.team: validation error: label team is required. rule team failed at path /metadata/labels/"
	if !res.Allowed || len(res.Warnings) != 1 || res.Warnings[0] != want {
		t.Errorf("%+v", res)
	}
}

func TestFullAuditQueue(t *testing.T) {
	srv, log := setup(t, fakeCluster{}, nil)
	full := newAuditor(srv, 1, 1) // never started
	for range 5 {
		full.add(audit{})
	}
	if full.dropped.Load() != 4 || strings.Count(log.String(), "audit queue is full") != 3 {
		t.Errorf("%d dropped\n%s", full.dropped.Load(), log)
	}
}

func TestSubresource(t *testing.T) {
	scale := strings.Replace(enforced("Fail"), "[ConfigMap]", "[Deployment/scale]", 1)
	srv, _ := setup(t, fakeCluster{}, nil, scale)
	change := func(r *admissionv1.AdmissionRequest) {
		r.Kind.Group, r.Kind.Kind, r.Resource.Group, r.Resource.Resource, r.SubResource = "autoscaling", "Scale", "apps", "deployments", "scale"
	}
	if _, res := postReview(t, srv, "/validate/fail", configMap("", change)); res.Allowed || !strings.Contains(res.Result.Message, "resource Deployment/shop/c was blocked") {
		t.Errorf("%+v", res)
	}
	if _, res := postReview(t, srv, "/validate/fail", configMap("", change, func(r *admissionv1.AdmissionRequest) { r.Resource.Resource = "things" })); res.Allowed {
		t.Error("a resource that is not served was allowed")
	}
}

func TestNamespaceLabels(t *testing.T) {
	text := strings.Replace(enforced("Fail"), "kinds: [ConfigMap]", "kinds: [ConfigMap, Namespace], namespaceSelector: {matchLabels: {env: prod}}", 1)
	srv, _ := setup(t, fakeCluster{labels: map[string]map[string]string{"shop": {"env": "prod"}, "lab": {}}}, nil, text)
	in := func(ns string) []byte {
		return configMap("", func(r *admissionv1.AdmissionRequest) {
			r.Namespace = ns
			r.Object.Raw = bytes.ReplaceAll(r.Object.Raw, []byte("shop"), []byte(ns))
		})
	}
	if _, res := postReview(t, srv, "/validate/fail", in("shop")); res.Allowed {
		t.Error("prod")
	}
	if _, res := postReview(t, srv, "/validate/fail", in("lab")); !res.Allowed {
		t.Errorf("lab: %+v", res.Result)
	}
	if _, res := postReview(t, srv, "/validate/fail", in("gone")); res.Allowed || !strings.Contains(res.Result.Message, "no namespace gone") {
		t.Errorf("a namespace that cannot be read must not let the object through: %+v", res)
	}
}

func TestPanicIsAnHTTPError(t *testing.T) {
	srv, log := setup(t, fakeCluster{}, nil)
	srv.snapshot = func() *catalog.Snapshot { panic("boom") }
	if code, _ := postReview(t, srv, "/validate/fail", configMap("")); code != http.StatusInternalServerError || !strings.Contains(log.String(), "boom") {
		t.Errorf("%d\n%s", code, log)
	}
}

func TestHeartbeat(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil)
	lease := func(name, annotations string) []byte {
		return configMap("", func(r *admissionv1.AdmissionRequest) {
			r.Name, r.Namespace = name, "kyverno"
			r.Object.Raw = []byte(`{"metadata":{"name":"kyverno-health"` + annotations + `}}`)
		})
	}
	for _, c := range []struct{ body, want string }{
		{string(lease("kyverno-health", "")), `[{"op":"add","path":"/metadata/annotations","value":{"kyverno.io/last-request-time":"1970-01-01T00:00:00Z"}}]`},
		{string(lease("kyverno-health", `,"annotations":{"a":"b"}`)), `[{"op":"add","path":"/metadata/annotations/kyverno.io~1last-request-time","value":"1970-01-01T00:00:00Z"}]`},
		{string(lease("other", "")), ""},
	} {
		if _, res := postReview(t, srv, "/verifymutate", []byte(c.body)); !res.Allowed || string(res.Patch) != c.want {
			t.Errorf("%+v\n%s", res, res.Patch)
		}
	}
	if _, res := postReview(t, srv, "/policymutate", lease("x", "")); !res.Allowed || res.Patch != nil {
		t.Errorf("%+v", res)
	}
}

func TestTimeLeft(t *testing.T) {
	for query, want := range map[string]time.Duration{
		"timeout=10s": 9500 * time.Millisecond, "timeout=1s": 900 * time.Millisecond, "a=b&timeout=2s": 1800 * time.Millisecond,
		"": 4500 * time.Millisecond, "timeout=x": 4500 * time.Millisecond, "timeout=-1s": 4500 * time.Millisecond, "timeout=1000h": 29500 * time.Millisecond, "timeout=20ms": 10 * time.Millisecond,
	} {
		if got := timeLeft(query, 5*time.Second); got != want {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
}

func TestPolicyReview(t *testing.T) {
	srv, _ := setup(t, fakeCluster{clusterish: []string{"Namespace"}}, nil)
	review := func(text string, change ...func(*admissionv1.AdmissionRequest)) []byte {
		raw, err := yaml.ToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return configMap("", append([]func(*admissionv1.AdmissionRequest){func(r *admissionv1.AdmissionRequest) {
			r.Kind.Group, r.Kind.Kind, r.Resource.Group, r.Resource.Resource = "kyverno.io", "ClusterPolicy", "kyverno.io", "clusterpolicies"
			r.Namespace, r.Object.Raw = "", raw
		}}, change...)...)
	}
	good := enforced("Fail")
	if _, res := postReview(t, srv, "/policyvalidate", review(good)); !res.Allowed || len(res.Warnings) > 0 {
		t.Errorf("%+v", res)
	}
	broken := strings.Replace(good, `team: "?*"`, `+(team): "?*"`, 1)
	_, res := postReview(t, srv, "/policyvalidate", review(broken))
	if res.Allowed || !strings.Contains(res.Result.Message, "unsupported anchor +(team)") || !strings.Contains(res.Result.Message, "\n  at spec.rules[0].validate") {
		t.Errorf("%+v", res.Result)
	}
	deleted := strings.Replace(broken, "{name: require-team}", "{name: require-team, deletionTimestamp: '2026-01-01T00:00:00Z'}", 1)
	if _, res := postReview(t, srv, "/policyvalidate", review(deleted, func(r *admissionv1.AdmissionRequest) {
		r.Operation, r.OldObject.Raw = admissionv1.Update, r.Object.Raw
	})); !res.Allowed {
		t.Errorf("finalizers of a broken policy are stuck: %+v", res.Result)
	}
	if _, res := postReview(t, srv, "/policyvalidate", review(broken, func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" })); !res.Allowed {
		t.Errorf("status: %+v", res.Result)
	}
	unknown := strings.Replace(good, "[ConfigMap]", "[Foo]", 1)
	if _, res := postReview(t, srv, "/policyvalidate", review(unknown)); !res.Allowed || len(res.Warnings) != 1 || res.Warnings[0] != "the kind defined in the all match resource is invalid: unable to convert GVK to GVR for kinds Foo" {
		t.Errorf("%+v", res)
	}
	namespaced := strings.NewReplacer("kind: ClusterPolicy", "kind: Policy", "{name: require-team}", "{name: p, namespace: shop}", "[ConfigMap]", "[Namespace]").Replace(good)
	if _, res := postReview(t, srv, "/policyvalidate", review(namespaced)); res.Allowed || !strings.HasPrefix(res.Result.Message, "Cluster wide resource 'Namespace' not allowed in namespaced policy") {
		t.Errorf("%+v", res)
	}
	if _, res := postReview(t, srv, "/policyvalidate", review("{apiVersion: policies.kyverno.io/v1, kind: FuturePolicy, metadata: {name: x}}")); res.Allowed {
		t.Error("a family that does not exist was accepted")
	}
}

// Only the API server knows whether a custom kind that a rule generates is namespaced.
func TestGenerateScope(t *testing.T) {
	srv, _ := setup(t, fakeCluster{clusterish: []string{"Mouse"}, kinds: map[string]string{"cats": "Cat", "configmaps": "ConfigMap"}}, nil)
	for _, c := range []struct{ kind, pattern, want string }{
		{"ClusterPolicy", "kind: Mouse, name: x, data: {}", ""},
		{"ClusterPolicy", "kind: Cat, name: x, namespace: there, data: {}", ""},
		{"ClusterPolicy", "kind: Mouse, name: x, namespace: there, data: {}", "path: spec.rules[0].generate.namespace.: target namespace must not be set for a cluster-wide resource"},
		{"ClusterPolicy", "kind: Cat, name: x, data: {}", "path: spec.rules[0].generate.namespace.: target namespace must be set for a namespaced resource"},
		{"Policy", "kind: Mouse, name: x, namespace: own, data: {}", "path: spec.rules[0].generate..: the target must be a namespaced resource: example.com/v1/Mouse"},
		{"ClusterPolicy", "namespace: there, cloneList: {kinds: [example.com/v1/Mouse]}", ""},
	} {
		text := "\napiVersion: kyverno.io/v1\nkind: " + c.kind + "\nmetadata: {name: p, namespace: own}\nspec: {rules: [{name: r, match: {any: [{resources: {kinds: [ConfigMap]}}]}, generate: {apiVersion: example.com/v1, " + c.pattern + "}}]}\n"
		if c.kind == "ClusterPolicy" {
			text = strings.Replace(text, ", namespace: own}", "}", 1)
		}
		raw, err := yaml.ToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		_, res := postReview(t, srv, "/policyvalidate", configMap("", func(r *admissionv1.AdmissionRequest) {
			r.Kind.Group, r.Kind.Kind, r.Resource.Group, r.Resource.Resource = "kyverno.io", c.kind, "kyverno.io", "policies"
			r.Object.Raw = raw
		}))
		switch {
		case res.Allowed != (c.want == ""):
			t.Errorf("%s %s: %+v", c.kind, c.pattern, res)
		case !res.Allowed && !strings.HasPrefix(res.Result.Message, c.want):
			t.Errorf("%s %s: %s", c.kind, c.pattern, res.Result.Message)
		}
	}
}

// TestPolicyUpdateReview shows the answers to updates of generate rules; the allowed changes are in TestUpdates of classic.
func TestPolicyUpdateReview(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil)
	const text = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: made, namespace: there, data: {}}
`
	// The first warning of each answer is that no controller executes the rule yet (TestReviewOfDeferredWork).
	update := func(from, to string) admissionv1.AdmissionResponse {
		_, res := postReview(t, srv, "/policyvalidate", configMap("", func(r *admissionv1.AdmissionRequest) {
			r.Kind.Group, r.Kind.Kind, r.Resource.Group, r.Resource.Resource = "kyverno.io", "ClusterPolicy", "kyverno.io", "clusterpolicies"
			r.Namespace, r.Operation = "", admissionv1.Update
			for raw, t := range map[*[]byte]string{&r.OldObject.Raw: text, &r.Object.Raw: strings.Replace(text, from, to, 1)} {
				*raw, _ = yaml.ToJSON([]byte(t))
			}
		}))
		return res
	}
	if res := update("data: {}", "data: {data: {a: b}}"); !res.Allowed || len(res.Warnings) != 1 {
		t.Errorf("data: %+v", res)
	}
	if res := update("kinds: [ConfigMap]", "kinds: [Secret]"); res.Allowed || !strings.HasPrefix(res.Result.Message, "changes of immutable fields of a rule spec in a generate rule is disallowed") {
		t.Errorf("match: %+v", res)
	}
	if res := update("name: made", "name: other"); !res.Allowed || len(res.Warnings) != 2 || !strings.HasPrefix(res.Warnings[1], "no synchronization will be performed to the old target resource") {
		t.Errorf("target: %+v", res)
	}
}

func BenchmarkReview(b *testing.B) {
	for name, body := range map[string][]byte{"good": configMap(team), "bad": configMap("")} {
		b.Run(name, func(b *testing.B) {
			srv, _ := setup(b, fakeCluster{}, map[string]string{"resourceFilters": "[Event,*,*] [*/*,kube-system,*]"}, enforced("Fail"))
			r := httptest.NewRequest(http.MethodPost, "/validate/fail?timeout=10s", nil)
			r.Header.Set("Content-Type", "application/json")
			r.ContentLength = int64(len(body))
			var reader bytes.Reader
			r.Body = struct {
				*bytes.Reader
				nopCloser
			}{&reader, nopCloser{}}
			w := &discard{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				reader.Reset(body)
				srv.ServeHTTP(w, r)
			}
			if w.code != 0 {
				b.Fatal(w.code)
			}
		})
	}
}

type nopCloser struct{}

func (nopCloser) Close() error { return nil }

type discard struct {
	header http.Header
	code   int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(code int)        { d.code = code }

func BenchmarkDecodeReview(b *testing.B) {
	body := configMap(team)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := decodeReview(string(body), nil); err != nil {
			b.Fatal(err)
		}
	}
}
