package impact

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"ephor.invalid/ephor/internal/admission"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/decision/store"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/world"
	"ephor.invalid/ephor/internal/world/fixed"
	"ephor.invalid/ephor/internal/world/taped"
)

// outside is a world with all lookups. Its answers differ between states, and no answer is equal to an error.
type outside struct {
	world.Root
	state int
}

type permissions struct{ state int }

func (p permissions) Allowed(_ context.Context, r world.AccessRequest) (bool, string, error) {
	if r.Username == "eve" {
		return false, "", errors.New("the rights of eve are not known")
	}
	return (len(r.Username)+p.state)%2 == 0, "because", nil
}

type hosts struct{ state int }

func (h hosts) LookupHost(_ context.Context, _ world.Host) ([]netip.Addr, error) {
	if h.state%2 == 0 {
		return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
	}
	return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
}

func (o outside) For(r world.Reach) world.World {
	w := o.Root.For(r)
	w.Access, w.Names = permissions{o.state}, hosts{o.state}.LookupHost
	w.Resources = w.API
	return w
}

// outsideIn returns the world in a state, with a clock.
func outsideIn(state int, now func() time.Time) world.Root {
	configMap := func(name, namespace string, data map[string]any) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": namespace, "labels": map[string]any{"n": fmt.Sprint(state)}}, "data": data}
	}
	objects := []map[string]any{
		configMap("teams", "default", map[string]any{"list": []string{`["a"]`, `["b"]`, `["a","b"]`}[state%3]}),
		configMap("teams", "shop", map[string]any{"list": `["b"]`}),
		{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop", "labels": map[string]any{"tier": fmt.Sprint(state % 2)}}},
		{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "default"}},
		{"apiVersion": "kyverno.io/v2beta1", "kind": "GlobalContextEntry", "metadata": map[string]any{"name": "maps"}, "spec": map[string]any{
			"kubernetesResource": map[string]any{"version": "v1", "resource": "configmaps", "namespace": "default"},
			"projections":        []any{map[string]any{"name": "names", "jmesPath": "[].metadata.name"}},
		}},
	}
	answer := func(r world.ServiceRequest) (map[string]any, error) {
		if strings.HasSuffix(r.URL, "broken") {
			return nil, errors.New("the service is not there")
		}
		return map[string]any{"ok": state%2 == 0, "n": float64(state), "m": int64(state), "statusCode": int64(200)}, nil
	}
	return outside{fixed.New(fixed.Values{
		Objects: func() ([]map[string]any, error) { return objects, nil }, Now: now, EveryNamespace: true, Seed: 7,
		NamespaceLabels: map[string]map[string]string{"shop": {"tier": fmt.Sprint(state % 2)}},
		Services:        world.Services(func(_ context.Context, r world.ServiceRequest) (any, error) { return answer(r) }),
		HTTP:            world.HTTP(func(_ context.Context, r world.ServiceRequest) (map[string]any, error) { return answer(r) }),
		Images: world.Images{Image: func(_ context.Context, r world.ImageRequest) (map[string]any, error) {
			if state%4 == 3 {
				return nil, &world.NoImageError{Reason: "no such image"}
			}
			return map[string]any{"registry": "ghcr.io", "resolvedImage": r.Reference + "@sha256:0", "configData": map[string]any{"config": map[string]any{"User": []string{"root", "app"}[state%2]}}}, nil
		}},
	}), state}
}

// lookingUpPolicies returns policies of both families that look things up.
func (g generator) lookingUpPolicies() (out []string) {
	for i := range 1 + g.IntN(4) {
		name := fmt.Sprintf("l%d", i)
		if g.IntN(2) == 0 {
			deny := func(context, key, operator, value string) string {
				return "\n    context: [" + context + "]\n    validate:\n      message: \"" + g.one("no", "no for {{request.namespace}}", "no: {{ x }}") + "\"\n      deny: {conditions: {any: [{key: " + key + ", operator: " + operator + ", value: " + value + "}]}}"
			}
			out = append(out, g.classic(name, g.one(
				deny(`{name: x, configMap: {name: teams, namespace: `+g.one("default", "shop", "nowhere")+`}}`, `"{{ request.object.metadata.labels.team || '' }}"`, "AnyNotIn", `"{{ x.data.list }}"`),
				deny(`{name: x, apiCall: {urlPath: "/api/v1/namespaces/{{ request.namespace }}/configmaps", jmesPath: "items[].metadata.labels.n"}}`, `"{{ x }}"`, "AnyIn", `["0", "2"]`),
				deny(`{name: x, apiCall: {urlPath: "/api/v1/namespaces/{{ request.namespace }}/configmaps/{{ request.name }}"}}`, `"{{ x.data.list }}"`, "Equals", `x`),
				deny(`{name: x, apiCall: {method: POST, data: [{key: name, value: "{{ request.name }}"}], service: {url: "https://svc.shop.svc/`+g.one("check", "broken", "check?token=hidden-token")+`", headers: [{key: Authorization, value: hidden-header}]}, jmesPath: `+g.one("ok", "n", "m")+`}}`, `"{{ x }}"`, g.one("Equals", "NotEquals"), g.one("true", "1", "2.0")),
				deny(`{name: x, globalReference: {name: `+g.one("maps", "maps.names", "gone")+`}}`, `"{{ length(x) }}"`, "GreaterThan", `0`),
				deny(`{name: x, imageRegistry: {reference: "ghcr.io/org/app:`+g.one("1", "2")+`"}}`, `"{{ x.configData.config.User }}"`, "Equals", `root`),
				deny(`{name: x, variable: {jmesPath: "is_external_url('https://example.com')"}}`, `"{{ x }}"`, "Equals", "true"),
				deny(`{name: x, variable: {jmesPath: "time_now_utc()"}}`, `"{{ x }}"`, "NotEquals", "never"),
				`
    validate: {cel: {expressions: [{expression: "authorizer.group('').resource('pods').namespace('shop').check('`+g.one("get", "list")+`').allowed()", message: not allowed}]}}`,
				`
    mutate: {patchStrategicMerge: {metadata: {annotations: {made: "{{ random('[a-z]{6}') }}", also: "{{ random('[0-9]{3}') }}"}}}}`,
			)))
			if g.IntN(4) == 0 {
				out[len(out)-1] = strings.Replace(out[len(out)-1], "exclude: {any: [{subjects", "exclude: {any: [{clusterRoles: ["+g.one("view", "edit")+"]}, {subjects", 1)
			}
			continue
		}
		expression := g.one(
			`resource.get('v1', 'configmaps', '`+g.one("default", "shop", "nowhere")+`', 'teams') == null`,
			`dyn(resource.list('v1', 'configmaps', '`+g.one("default", "shop")+`').items).size() > 1`,
			`dyn(resource.get('v1', 'configmaps', 'default', 'teams')).data.list.contains('a')`,
			`dyn(globalContext.get('maps', '`+g.one("", "names", "nothing")+`')).size() == 1`,
			`dyn(http.get('https://svc.shop.svc/`+g.one("x", "broken")+`')).ok == true`,
			`dyn(http.post('https://svc.shop.svc/x', {'name': request.name}, {'Authorization': 'hidden-header'})).n == 1`,
			`has(namespaceObject.metadata.labels) && namespaceObject.metadata.labels.tier == '1'`,
		)
		out = append(out, `
apiVersion: policies.kyverno.io/v1
kind: `+g.one("ValidatingPolicy", "ValidatingPolicy", "NamespacedValidatingPolicy")+`
metadata: {name: `+name+`}
spec:
  validationActions: `+g.one("[Deny]", "[Audit]", "[Warn]", "[Deny, Warn]")+`
  failurePolicy: `+g.one("Fail", "Ignore")+`
  matchConstraints: {resourceRules: [`+g.celRule()+`]}
  validations:
  - {expression: "`+expression+`", message: looked up}`)
		if last := &out[len(out)-1]; strings.Contains(*last, "kind: Namespaced") {
			*last = strings.Replace(*last, "{name: "+name+"}", "{name: "+name+", namespace: shop}", 1)
			*last = strings.Replace(*last, "'default', ", "", 1)
			*last = strings.Replace(*last, "'shop', ", "", 1)
			*last = strings.Replace(*last, "'nowhere', ", "", 1)
			*last = strings.Replace(*last, ", 'default')", ")", 1)
			*last = strings.Replace(*last, ", 'shop')", ")", 1)
		}
	}
	return out
}

// labelled makes the lookups of admission in a cluster whose namespaces have labels.
type labelled struct {
	cluster
	state int
}

func (l labelled) NamespaceLabels(_ context.Context, ns string) (map[string]string, error) {
	return map[string]string{"kubernetes.io/metadata.name": ns, "tier": fmt.Sprint(l.state % 2)}, nil
}

// taping sends requests to a server as apiServer does, and records each review with the lookups of its rules.
type taping struct {
	*apiServer
	server *admission.Server
	feed   *decision.Feed
	now    func() time.Time
	n      int // reviews so far
}

// record passes one review at a path to the Feed.
func (s *taping) record(t *testing.T, path string, review []byte) {
	req, err := admission.Decode(string(review))
	if err != nil {
		t.Fatal(err)
	}
	req.Tape = taped.New()
	got, err := s.server.Answer(t.Context(), path, req)
	if err != nil {
		t.Fatal(err)
	}
	webhook := "ValidatingWebhookConfiguration"
	if strings.Contains(path, "mutate") || strings.HasPrefix(path, "/mpol") {
		webhook = mutatingWebhook
	}
	if len(got.Results) > 0 {
		if _, err := req.NamespaceLabels(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.n++
	s.feed.Put(decision.Review{Request: req, Webhook: webhook, Decision: got.Decision, Patch: got.Patch, Results: got.Results, At: s.now().Add(time.Duration(s.n) * time.Microsecond)})
}

// newTaping returns a server with policies in force, in a world.
func newTaping(t *testing.T, programs []*policy.Program, root world.Root, state int, feed *decision.Feed, now func() time.Time) *taping {
	api := newAPIServer(t, programs)
	cat := catalog.New()
	cat.Set(programs...)
	server := admission.New(admission.Options{Namespace: "kyverno", Timeout: 10 * time.Second, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Now: time.Now},
		cat.Snapshot, &settings.Store{}, root, labelled{cluster{served}, state}, func() error { return nil })
	server.Open()
	api.handler = server
	out := &taping{apiServer: api, server: server, feed: feed, now: now}
	if feed != nil {
		api.seen = func(path string, review []byte) { out.record(t, path, review) }
	}
	return out
}

// TestTapedAnswersAreThoseOfAReplica checks that recorded lookups suffice. Requests that a replica recorded get the replica's answers again, with
// no other world than the tape. Other policies give the answers of a replica with these policies in force at that time, or the request is
// not answered.
func TestTapedAnswersAreThoseOfAReplica(t *testing.T) {
	rounds, least := 120, 10
	if testing.Short() {
		rounds, least = 30, 1
	}
	seen := map[string]int{}
	for seed := range uint64(rounds) {
		g := generator{rand.New(rand.NewPCG(seed, 23))}
		texts := append(g.policies(), g.lookingUpPolicies()...)
		texts = texts[max(0, len(texts)-6):]
		others := append(g.policies()[:1], g.lookingUpPolicies()...)
		programs, otherPrograms := compileAll(t, texts), compileAll(t, others)
		seen["policies"] += len(texts)
		seen["compiled policies"] += len(programs)
		now := time.Unix(1_700_000_000, 0).UTC()
		clock := func() time.Time { return now }
		state := int(seed)
		var lines bytes.Buffer
		var kept decision.Store = decision.NewLines(&lines)
		path := ""
		if seed%3 == 0 { // a store in a file instead of lines
			path = filepath.Join(t.TempDir(), "decisions.db")
			s, err := store.Open("sqlite:"+path, store.Options{MaxBytes: 64 << 20, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			kept = s
		}
		feed := feedTo(kept)
		recording := newTaping(t, programs, outsideIn(state, clock), state, feed, clock)
		alone := newTaping(t, otherPrograms, outsideIn(state, clock), state, nil, clock)
		var want, wantOther []answered
		var reviews []*admissionv1.AdmissionReview
		for range 20 {
			now = now.Add(time.Minute)
			r := g.review()
			reviews = append(reviews, r)
			want = append(want, recording.admit(r))
			wantOther = append(wantOther, alone.admit(r))
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		feed.Run(ctx)
		if text := lines.String(); strings.Contains(text, "hidden-") {
			t.Fatal("a credential is recorded: " + text)
		}
		source := DecisionFile("decisions.jsonl", &lines)
		if _, err := os.Stat(path); err == nil { // otherwise nothing was recorded
			pages, closed, err := openStore(path)
			if err != nil {
				t.Fatal(err)
			}
			defer closed()
			source = StoredDecisions(t.Context(), "store", pages, decision.Query{})
		}
		same, other := NewReplica(snapshotOf(programs), Options{}), NewReplica(snapshotOf(otherPrograms), Options{})
		err := Each(t.Context(), Decisions(time.Time{}, source), same, other, func(e *Evaluated) {
			var missing *NotRecordedError
			switch {
			case errors.Is(e.Err, ErrSameRequest):
				return
			case e.Err != nil && !errors.As(e.Err, &missing):
				t.Fatal(seed, e.Err)
			}
			i := int(e.Record.Time.Sub(time.Unix(1_700_000_000, 0)).Minutes()) - 1
			say := func(which string, got *Verdict, w answered, of []string) {
				if have := haveOf(t, e.Request, got); !sameAnswer(have, w) {
					raw, _ := json.Marshal(reviews[i])
					t.Fatalf("seed %d, request %d, %s policies:\ntape    %+v\nreplica %+v\n%s\n%s", seed, i, which, have, w, strings.Join(of, "---"), raw)
				}
			}
			if missing == nil {
				say("the other", &e.Before, wantOther[i], others)
				seen["other policies"]++
			} else {
				seen["not known: "+missing.Missing[0].Method]++
				// The recorded policies still get their answers.
				req, err := e.Record.Request()
				if err != nil {
					t.Fatal(err)
				}
				e.Request = req
				req.Tape = decision.Tape(e.Record.Lookups, e.Record.Time, false)
				e.After, err = same.Answer(t.Context(), req)
				if len(req.Tape.Missing()) > 0 && req.Tape.Missing()[0].Method == taped.Roles {
					seen["roles that no recorded review needed"]++ // a review without results is not recorded
					return
				}
				if err != nil || len(req.Tape.Missing()) > 0 {
					t.Fatalf("seed %d, request %d: %v, %+v\n%s", seed, i, err, req.Tape.Missing(), strings.Join(texts, "---"))
				}
			}
			say("the same", &e.After, want[i], texts)
			seen["same policies"]++
			for _, l := range e.Record.Lookups {
				for _, x := range l.List {
					seen["lookup "+x.Method]++
					if x.Error != nil {
						seen["failed lookup"]++
					}
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%v", seen)
	for _, class := range []string{"same policies", "other policies", "failed lookup", "lookup object", "lookup api", "lookup resource", "lookup service", "lookup http", "lookup global", "lookup image", "lookup access",
		"lookup labels", "lookup random", "lookup host", "lookup namespace"} {
		if seen[class] < least {
			t.Errorf("%s: only %d: the test proves little", class, seen[class])
		}
	}
	if 2*seen["compiled policies"] < seen["policies"] {
		t.Errorf("only %d of %d policies compile", seen["compiled policies"], seen["policies"])
	}
}

func snapshotOf(programs []*policy.Program) []*policy.Program {
	cat := catalog.New()
	cat.Set(programs...)
	return cat.Snapshot().Programs()
}

// openStore reads a store in a file.
func openStore(path string) (func(context.Context, *decision.Query, string, int) (decision.Page, error), func(), error) {
	s, err := store.OpenReader("sqlite:" + path)
	if err != nil {
		return nil, nil, err
	}
	return s.Page, func() { _ = s.Close() }, nil
}
