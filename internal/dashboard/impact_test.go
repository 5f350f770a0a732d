package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/admission"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/policy"
)

// inMemory is a store that keeps records.
type inMemory struct{ records []decision.Record }

func (m *inMemory) Write(_ context.Context, records []decision.Record) error {
	m.records = append(m.records, records...)
	return nil
}
func (*inMemory) Close() error         { return nil }
func (*inMemory) DecisionKept(string)  {}
func (*inMemory) DecisionsDropped(int) {}

// recordedRequests returns denied requests that create objects, as admission records them; newest first.
func recordedRequests(t testing.TB, at time.Time, objects ...string) kept {
	t.Helper()
	m := &inMemory{}
	feed := decision.NewFeed(decision.Options{
		Store: m, Keep: decision.Keep{Share: 1}, Capacity: 100, Users: decision.NameUsers, Requests: true, Observer: m, Log: slog.New(slog.DiscardHandler),
	})
	for i, text := range objects {
		var o struct {
			Kind     string
			Metadata struct{ Namespace, Name string }
		}
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		gvk, resource := `{"group":"","version":"v1","kind":"`+o.Kind+`"}`, `{"group":"","version":"v1","resource":"`+strings.ToLower(o.Kind)+`s"}`
		req, err := admission.Decode(fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u%d","kind":%s,"resource":%s,"requestKind":%s,"requestResource":%s,
			"name":%q,"namespace":%q,"operation":"CREATE","userInfo":{"username":"jane"},"object":%s}}`, i, gvk, resource, gvk, resource, o.Metadata.Name, o.Metadata.Namespace, text))
		if err != nil {
			t.Fatal(err)
		}
		feed.Put(decision.Review{Request: req, Webhook: "ValidatingWebhookConfiguration", Decision: policy.Decision{Message: "no"}, At: at.Add(time.Duration(i) * time.Minute)})
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	feed.Run(ctx) // writes the waiting records
	if len(m.records) != len(objects) {
		t.Fatalf("%d of %d requests are recorded", len(m.records), len(objects))
	}
	slices.Reverse(m.records)
	return m.records
}

// kindsServed are the kinds of a cluster.
type kindsServed struct{ discovery.List }

func (kindsServed) BodyOf(string) []string { return nil }
func (k kindsServed) KindFor(_ context.Context, gvr schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	for _, r := range k.List {
		if r.GVR() == gvr {
			return r.GVK(), nil
		}
	}
	return schema.GroupVersionKind{}, errors.New("no such resource")
}

func servedKind(group, version, resource, kind string, namespaced bool) discovery.Resource {
	return discovery.Resource{
		Group: group, Version: version, Resource: resource, Kind: kind, Namespaced: namespaced, Preferred: true, Listable: true, Readable: true,
		Body: schema.GroupVersionKind{Group: group, Version: version, Kind: kind},
	}
}

// apiServer answers requests for the paths that the owner of a token may read.
type apiServer struct {
	mu    sync.Mutex
	may   map[string][]string // token → paths
	has   map[string]string   // path → answer
	asked []string
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.asked = append(s.asked, token+" "+r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	answer, found := s.has[r.URL.Path]
	status := func(code int, reason string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
	}
	switch {
	case !slices.Contains(s.may[token], r.URL.Path):
		status(http.StatusForbidden, "Forbidden")
	case !found:
		status(http.StatusNotFound, "NotFound")
	default:
		_, _ = io.WriteString(w, answer)
	}
}

func (s *apiServer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

const requireTeam = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: require-team}
spec:
  validationFailureAction: Enforce
  rules:
  - name: team
    match: {any: [{resources: {kinds: [Pod, ConfigMap]}}]}
    validate:
      message: "a team is needed; it says {{ request.object.data.word || 'nothing' }}"
      pattern: {metadata: {labels: {team: "?*"}}}
`

// impactPage returns a dashboard that evaluates policies, over a cluster with Pods, and with recorded requests.
func impactPage(t *testing.T) (*page, *apiServer) {
	t.Helper()
	pod := func(ns, name, labels string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":%q,"name":%q,"labels":{%s}},"spec":{"containers":[]}}`, ns, name, labels)
	}
	item := func(text string) string { // items of a list have no kind
		return strings.Replace(text, `"apiVersion":"v1","kind":"Pod",`, "", 1)
	}
	list := func(items ...string) string {
		return `{"kind":"List","apiVersion":"v1","metadata":{},"items":[` + strings.Join(items, ",") + `]}`
	}
	owned := strings.Replace(item(pod("a", "plain", "")), `"labels"`, `"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"1","controller":true}],"labels"`, 1)
	policies := "/apis/kyverno.io/v1/clusterpolicies"
	api := &apiServer{
		may: map[string][]string{
			"a":   {"/api/v1/namespaces/a/pods", "/api/v1/namespaces/a", policies, policies + "/require-team", "/apis/apps/v1/namespaces/a/replicasets/web"},
			"all": {"/api/v1/pods", "/api/v1/configmaps", policies, policies + "/require-team"}, "none": nil,
		},
		has: map[string]string{
			"/api/v1/namespaces/a/pods":                  list(owned, item(pod("a", "good", `"team":"x"`))),
			"/api/v1/pods":                               list(owned, item(pod("a", "good", `"team":"x"`)), item(pod("b", "other", ""))),
			"/api/v1/configmaps":                         list(`{"metadata":{"namespace":"b","name":"words"},"data":{"word":"planted"}}`),
			"/api/v1/namespaces/a":                       `{"metadata":{"name":"a","labels":{"team":"from-the-namespace"}}}`,
			"/apis/apps/v1/namespaces/a/replicasets/web": `{"metadata":{"namespace":"a","name":"web","uid":"1","labels":{"team":"storefront"}}}`,
			policies:                   list(`{"metadata":{"name":"require-team"}}`),
			policies + "/require-team": `{"apiVersion":"kyverno.io/v1","kind":"ClusterPolicy","metadata":{"name":"require-team","uid":"5","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","a":"b"}},"spec":{"validationFailureAction":"Audit","rules":[{"name":"team","match":{"any":[{"resources":{"kinds":["Pod"]}}]},"validate":{"message":"m","pattern":{"metadata":{"labels":{"team":"?*"}}}}}]},"status":{"ready":true}}`,
		},
	}
	served := httptest.NewServer(api)
	t.Cleanup(served.Close)
	p := newPage(true)
	p.people.mu.Lock()
	p.people.objects = map[string][]string{"a": {"pods in a"}, "all": {"pods in ", "configmaps in "}, "shop": {"pods in a"}}
	p.people.may["shop"] = []string{everywhere, clusterScoped} // this user may list all reports, but Pods in one namespace only
	p.people.mu.Unlock()
	o := p.o
	o.Discovery = kindsServed{discovery.List{
		servedKind("", "v1", "pods", "Pod", true), servedKind("", "v1", "configmaps", "ConfigMap", true), servedKind("apps", "v1", "replicasets", "ReplicaSet", true),
		servedKind("kyverno.io", "v1", "clusterpolicies", "ClusterPolicy", false),
	}}
	o.As = func(token string) (rest.Interface, error) {
		return rest.UnversionedRESTClientFor(&rest.Config{Host: served.URL, BearerToken: token, ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()}})
	}
	o.Decisions = recordedRequests(t, p.clock.Add(-time.Hour),
		pod("a", "plain", ""), pod("a", "good", `"team":"x"`), pod("b", "other", ""),
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a","name":"words"},"data":{"word":"planted"}}`)
	again := New(o)
	again.index, again.trend = p.index, p.trend
	again.complete.Store(true)
	p.Dashboard = again
	return p, api
}

// post evaluates policies as the owner of a token.
func (p *page) post(token string, body any, header ...string) (status int, answer string) {
	p.clock = p.clock.Add(time.Minute) // so that the rate limit does not apply
	text, given := body.(string)
	if !given {
		made, err := json.Marshal(body)
		if err != nil {
			panic(err)
		}
		text = string(made)
	}
	r := httptest.NewRequest("POST", "http://localhost:8090/api/v1/impact", strings.NewReader(text))
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func evaluated(t *testing.T, p *page, token string, body map[string]any) (*impact.Report, string) {
	t.Helper()
	status, text := p.post(token, body)
	if status != 200 {
		t.Fatalf("%s: %d %s\n%s", token, status, text, &p.log)
	}
	var report impact.Report
	from := json.NewDecoder(strings.NewReader(text))
	from.DisallowUnknownFields() // the answer is the report of the command line
	if err := from.Decode(&report); err != nil {
		t.Fatal(err)
	}
	return &report, text
}

// Policies are evaluated only on what the user may read: requests in namespaces whose reports the user may list, about objects that the
// user may list, and objects that the API server returns to the user.
func TestImpactIsOfTheReader(t *testing.T) {
	p, _ := impactPage(t)
	for _, c := range []struct {
		token, on         string
		requests, refused int
		planted           bool
	}{
		{"all", "requests", 4, 3, true}, {"a", "requests", 2, 1, false}, {"shop", "requests", 2, 1, false}, {"none", "requests", 0, 0, false}, {"namespaces", "requests", 0, 0, false},
		{"all", "objects", 4, 3, true}, {"a", "objects", 2, 1, false}, {"none", "objects", 0, 0, false},
	} {
		report, text := evaluated(t, p, c.token, map[string]any{"policies": requireTeam, "on": c.on, "ownerLabel": "team"})
		if report.Requests != c.requests || report.After.Refused != c.refused || strings.Contains(text, "planted") != c.planted {
			t.Errorf("%s on %s: %d requests, %d refused, want %d and %d\n%s", c.token, c.on, report.Requests, report.After.Refused, c.requests, c.refused, text)
		}
		if c.token == "shop" && !strings.Contains(text, "with objects that you may not list") {
			t.Errorf("what is left out is not said: %s", text)
		}
	}
	report, text := evaluated(t, p, "a", map[string]any{"policies": requireTeam, "on": "objects", "ownerLabel": "team"})
	if len(report.Owners) != 1 || report.Owners[0].Owner != "ReplicaSet/web" || report.Owners[0].Whose != "storefront" || report.Effect == nil || report.Effect.NewlyRefused != 1 {
		t.Errorf("owners and the effect of the edit: %s", text)
	}
	report, _ = evaluated(t, p, "all", map[string]any{"policies": requireTeam, "on": "requests", "namespaces": []string{"b*"}})
	if report.Requests != 1 {
		t.Errorf("of one namespace: %d requests", report.Requests)
	}
	report, _ = evaluated(t, p, "all", map[string]any{"policies": requireTeam, "on": "requests", "since": p.clock.Add(time.Hour)})
	if report.Requests != 0 {
		t.Errorf("of the future: %d requests", report.Requests)
	}
}

// Only the exceptions of the cluster that are in force exempt objects: those of the namespace that counts, and no pending ones.
func TestImpactAppliesExceptionsInForce(t *testing.T) {
	p, api := impactPage(t)
	const path = "/apis/kyverno.io/v2/policyexceptions"
	api.mu.Lock()
	api.may["all"] = append(api.may["all"], path)
	api.has[path] = `{"kind":"List","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"e","namespace":"b","uid":"7"},"spec":{
		"exceptions":[{"policyName":"require-team","ruleNames":["team"]}],"match":{"any":[{"resources":{"kinds":["Pod"],"names":["other"]}}]}}}]}`
	api.mu.Unlock()
	p.o.Discovery = kindsServed{append(p.o.Discovery.(kindsServed).List, servedKind("kyverno.io", "v2", "policyexceptions", "PolicyException", true))}
	for _, c := range []struct {
		what    string
		in      string // the namespace whose exceptions take effect
		pending string
		exempt  int
	}{
		{"in force", "b", "", 1},
		{"in another namespace", "exceptions", "", 0},
		{"another one is pending", "b", "8", 1},
		{"pending", "b", "7", 0},
	} {
		p.o.AcceptsExceptions = func(namespace string) bool { return namespace == c.in }
		p.o.Pending = func() []*policy.Exception { return []*policy.Exception{{UID: c.pending}} }
		if report, text := evaluated(t, p, "all", map[string]any{"policies": requireTeam, "on": "objects"}); report.After.Exempt != c.exempt {
			t.Errorf("%s: %s", c.what, text)
		}
	}
}

// Pasted policies cannot make the dashboard send requests, nor read what their author may not read.
func TestImpactLooksNothingUp(t *testing.T) {
	p, api := impactPage(t)
	called := make(chan string, 10)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { called <- r.URL.Path }))
	defer service.Close()
	rule := func(name, context string) string {
		return `
  - name: ` + name + `
    match: {any: [{resources: {kinds: [Pod]}}]}
    context: [` + context + `]
    validate: {message: "it is {{ x }}", deny: {conditions: {any: [{key: "{{ x }}", operator: NotEquals, value: never}]}}}`
	}
	text := `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: curious}
spec:
  validationFailureAction: Enforce
  rules:` + rule("api", `{name: x, apiCall: {urlPath: /api/v1/configmaps}}`) + rule("map", `{name: x, configMap: {name: words, namespace: b}}`) +
		rule("service", `{name: x, apiCall: {method: GET, service: {url: "`+service.URL+`/leak"}}}`) +
		rule("image", `{name: x, imageRegistry: {reference: "`+strings.TrimPrefix(service.URL, "http://")+`/leak:1"}}`)
	for _, on := range []string{"requests", "objects"} {
		report, answer := evaluated(t, p, "all", map[string]any{"policies": text, "on": on})
		if report.After.Erred != 3 || strings.Contains(answer, "planted") || !strings.Contains(answer, "the dashboard looks up only the labels") {
			t.Errorf("on %s: %s", on, answer)
		}
	}
	select {
	case path := <-called:
		t.Errorf("a service was called: %s", path)
	default:
	}
	for _, asked := range api.requests() {
		if strings.Contains(asked, "configmaps") || !strings.HasPrefix(asked, "all ") {
			t.Errorf("the API server was asked: %s", asked)
		}
	}
}

// A request to evaluate must come from the page itself, with a token, within bounds, and one at a time.
func TestImpactIsBounded(t *testing.T) {
	p, _ := impactPage(t)
	good := map[string]any{"policies": requireTeam, "on": "requests"}
	for name, c := range map[string]struct {
		token  string
		body   any
		header []string
		status int
		says   string
	}{
		"the page":                 {"all", good, []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://localhost:8090"}, 200, "refused"},
		"no token":                 {"", good, nil, 401, "token"},
		"a wrong token":            {"nobody", good, nil, 401, "token"},
		"another site":             {"all", good, []string{"Sec-Fetch-Site", "cross-site"}, 403, "own page"},
		"another port":             {"all", good, []string{"Sec-Fetch-Site", "same-site"}, 403, "own page"},
		"another site, old":        {"all", good, []string{"Origin", "https://elsewhere.example"}, 403, "own page"},
		"a form":                   {"all", good, []string{"Content-Type", "text/plain"}, 415, "application/json"},
		"too long":                 {"all", map[string]any{"policies": strings.Repeat("#\n", maxImpactBody), "on": "requests"}, nil, 400, "longer than"},
		"no JSON":                  {"all", "{", nil, 400, "error"},
		"an unknown field":         {"all", map[string]any{"policies": requireTeam, "on": "requests", "cluster": "west"}, nil, 400, "unknown field"},
		"no source":                {"all", map[string]any{"policies": requireTeam}, nil, 400, "neither"},
		"too many examples":        {"all", map[string]any{"policies": requireTeam, "on": "requests", "examples": 1000}, nil, 400, "examples"},
		"a path as namespace":      {"all", map[string]any{"policies": requireTeam, "on": "objects", "namespaces": []string{"../secrets"}}, nil, 400, "namespace"},
		"a wildcard for objects":   {"all", map[string]any{"policies": requireTeam, "on": "objects", "namespaces": []string{"a*"}}, nil, 400, "wildcards"},
		"nothing":                  {"all", map[string]any{"policies": "", "on": "requests"}, nil, 422, "no policy"},
		"no policy":                {"all", map[string]any{"policies": "kind: Pod\napiVersion: v1\nmetadata: {name: x}", "on": "requests"}, nil, 422, "mistakes"},
		"a mistake with its place": {"all", map[string]any{"policies": strings.Replace(requireTeam, "pattern", "patern", 1), "on": "requests"}, nil, 422, "policies:12"},
		"no YAML":                  {"all", map[string]any{"policies": "a: [", "on": "requests"}, nil, 422, "mistakes"},
	} {
		if status, text := p.post(c.token, c.body, c.header...); status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %s, want %d %s", name, status, text, c.status, c.says)
		}
	}
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		if resp := p.do(method, "/api/v1/impact", "all"); resp.StatusCode != 405 || resp.Header.Get("Allow") != "POST" {
			t.Errorf("%s: %s, Allow %q", method, resp.Status, resp.Header.Get("Allow"))
		}
	}
	done, ok := p.evaluating("all")
	if status, text := p.post("all", good); !ok || status != 429 {
		t.Errorf("a second one of a user: %d %s", status, text)
	}
	if status, text := p.post("a", good); status != 200 {
		t.Errorf("one of another user: %d %s", status, text)
	}
	second, _ := p.evaluating("shop")
	if status, text := p.post("a", good); status != 429 {
		t.Errorf("a third one: %d %s", status, text)
	}
	second()
	done()
	if status, text := p.post("all", good); status != 200 || len(p.impacts) != 0 {
		t.Errorf("afterwards: %d %s, %v", status, text, p.impacts)
	}
	if strings.Contains(p.log.String(), "planted") {
		t.Errorf("the log: %s", &p.log)
	}
	// A client that disconnects ends the evaluation.
	ctx, stop := context.WithCancel(context.Background())
	stop()
	text, _ := json.Marshal(good)
	r := httptest.NewRequestWithContext(ctx, "POST", "http://localhost:8090/api/v1/impact", bytes.NewReader(text))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer all")
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, r)
	if w.Code == 200 || len(p.impacts) != 0 {
		t.Errorf("a client that left: %d", w.Code)
	}
}

// If nothing can be evaluated, the path does not exist, and without tokens objects are not read.
func TestImpactWithoutUsers(t *testing.T) {
	p := newPage(false)
	if got := p.do("POST", "/api/v1/impact", ""); got.StatusCode != 405 {
		t.Errorf("without a store: %s", got.Status)
	}
	guarded, api := impactPage(t)
	o := guarded.o
	o.Tokens, o.Access, o.As = nil, nil, nil
	var err error
	if o.Client, err = guarded.o.As("all"); err != nil {
		t.Fatal(err)
	}
	local := New(o)
	local.complete.Store(true)
	p.Dashboard = local
	report, text := evaluated(t, p, "", map[string]any{"policies": requireTeam, "on": "requests"})
	if report.Requests != 4 || report.After.Refused != 3 {
		t.Errorf("recorded requests: %s", text)
	}
	if status, text := p.post("", map[string]any{"policies": requireTeam, "on": "objects"}); status != 400 || !strings.Contains(text, "--dashboardAddress") {
		t.Errorf("objects: %d %s", status, text)
	}
	for _, asked := range api.requests() {
		if strings.Contains(asked, "pods") {
			t.Errorf("the controller's rights are used: %s", asked)
		}
	}
	if status, _ := p.post("", map[string]any{"policies": requireTeam, "on": "requests"}, "Sec-Fetch-Site", "cross-site"); status != 403 {
		t.Errorf("another site: %d", status)
	}
}

// A user can choose the policies in the cluster that the user may list; their text is as the author wrote it.
func TestPolicies(t *testing.T) {
	p, _ := impactPage(t)
	get := func(token, query string) (int, string) {
		p.clock = p.clock.Add(time.Minute)
		resp := p.do("GET", "/api/v1/policies"+query, token)
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	one := "?group=kyverno.io&kind=ClusterPolicy&name="
	for _, c := range []struct {
		token, query string
		status       int
		want         string
	}{
		{"a", "", 200, `{"policies":[{"group":"kyverno.io","kind":"ClusterPolicy","name":"require-team"}]}`}, {"none", "", 200, `{"policies":[]}`}, {"", "", 401, "token"},
		{"a", one + "require-team", 200, `annotations:\n    a: b`}, {"none", one + "require-team", 400, "no such policy"}, {"a", one + "other", 400, "no such policy"},
		{"a", one + "..%2F..%2Fsecrets", 400, "no such policy"}, {"a", "?group=&kind=Secret&name=x", 400, "no such policy"}, {"a", "?path=/api", 400, "parameters"},
	} {
		status, text := get(c.token, c.query)
		if status != c.status || !strings.Contains(text, c.want) || strings.Contains(text, "last-applied") || strings.Contains(text, "status:") || strings.Contains(text, "uid") {
			t.Errorf("%s %s: %d %s", c.token, c.query, status, text)
		}
	}
	var s state
	if err := json.NewDecoder(p.do("GET", "/api/v1/state", "a").Body).Decode(&s); err != nil || !s.Impact || !s.Decisions {
		t.Errorf("%+v %v", s, err)
	}
}
