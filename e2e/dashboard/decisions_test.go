package dashboard

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/e2e/browser"
	"ephor.invalid/ephor/internal/admission"
	"ephor.invalid/ephor/internal/dashboard"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/decision/store"
	"ephor.invalid/ephor/internal/devcluster"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/policy"
)

// decisionsOf returns a store with the records, as the reports controller has it.
func decisionsOf(t *testing.T, records ...decision.Record) decision.Reader {
	t.Helper()
	s, err := store.NewSQLite(filepath.Join(t.TempDir(), "decisions.db"), store.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Write(context.Background(), records); err != nil {
		t.Fatal(err)
	}
	return s
}

// decided returns the record of a request for a Pod, made some minutes ago.
func decided(uid string, minutes int, namespace, name, user string, verdict decision.Verdict, rules ...decision.Result) decision.Record {
	r := decision.Record{
		Schema: decision.Schema, Time: time.Now().Add(-time.Duration(minutes) * time.Minute), Duration: 2 * time.Millisecond, UID: uid,
		Webhook: "ValidatingWebhookConfiguration", User: user, Groups: []string{"system:authenticated"}, Operation: "CREATE", Version: "v1", Kind: "Pod",
		Namespace: namespace, Name: name, Verdict: verdict, Allowed: verdict != decision.Refused, Share: 1, Rules: rules,
	}
	if verdict == decision.Refused {
		r.Message = "no"
	}
	return r
}

// observing is an observer without metrics.
type observing struct{}

func (observing) DecisionKept(string)  {}
func (observing) DecisionsDropped(int) {}

// kept is a store that a Feed does not close.
type kept struct{ decision.Store }

func (kept) Close() error { return nil }

// requestsOf returns a store with requests by jane that create ConfigMaps, as admission records them.
func requestsOf(t *testing.T, names ...string) decision.Reader {
	t.Helper()
	s, err := store.NewSQLite(filepath.Join(t.TempDir(), "requests.db"), store.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	feed := decision.NewFeed(decision.Options{
		Store: kept{s}, Keep: decision.Keep{Share: 1}, Capacity: 100, Users: decision.NameUsers, Requests: true, Observer: observing{}, Log: slog.New(slog.DiscardHandler),
	})
	for i, text := range names {
		ns, name, _ := strings.Cut(text, "/")
		gvk, gvr := `{"group":"","version":"v1","kind":"ConfigMap"}`, `{"group":"","version":"v1","resource":"configmaps"}`
		req, err := admission.Decode(fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"00000000-0000-0000-0000-00000000000%d",
			"kind":%s,"resource":%s,"requestKind":%s,"requestResource":%s,"name":%q,"namespace":%q,"operation":"CREATE","userInfo":{"username":"jane"},
			"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":%q},"data":{"word":"word of %s"}}}}`, i, gvk, gvr, gvk, gvr, name, ns, ns, name, text))
		if err != nil {
			t.Fatal(err)
		}
		feed.Put(decision.Review{Request: req, Webhook: "ValidatingWebhookConfiguration", Decision: policy.Decision{Message: "no"}, At: time.Now().Add(-time.Duration(i+1) * time.Minute)})
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	feed.Run(ctx) // writes the pending records
	return s
}

// evaluating allows a dashboard to evaluate policies with the rights of its users.
func evaluating(t *testing.T, o *dashboard.Options) {
	t.Helper()
	served, err := clientdiscovery.NewDiscoveryClientForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	o.Discovery = discovery.New(served, time.Now)
	o.As = func(token string) (rest.Interface, error) {
		user := rest.AnonymousClientConfig(cluster.Config)
		user.BearerToken, user.NegotiatedSerializer = token, scheme.Codecs.WithoutConversion()
		return rest.UnversionedRESTClientFor(user)
	}
}

// focus returns the text of the focused element.
func focus(b *browser.Browser) (text string) {
	b.Script(&text, `return document.activeElement.innerText.trim()`)
	return text
}

// pages returns the names of the pages to which the page links.
func pages(b *browser.Browser) (names string) {
	b.Script(&names, `return [...document.querySelectorAll("#pages a")].filter((e) => e.checkVisibility()).map((e) => e.innerText.trim()).join(", ")`)
	return names
}

// accessible fails the test if an element of the page has no label, too little contrast, or is wider than a small screen.
func accessible(t *testing.T, b *browser.Browser) {
	t.Helper()
	none := func(what, script string) {
		t.Helper()
		var bad []string
		if b.Script(&bad, script); len(bad) > 0 {
			t.Errorf("%s: %q", what, bad)
		}
	}
	b.Script(nil, `document.querySelectorAll("details").forEach((d) => { d.open = true })`)
	none("without a label", unlabelled)
	none("pale", pale)
	b.Dark(true)
	none("pale in the dark", pale)
	b.Dark(false)
	for _, width := range []int{768, 400, 360} {
		b.Size(width, 900)
		none(fmt.Sprint("wider than ", width), narrow)
	}
	b.Size(1360, 1250)
}

// The page of decisions: the list, its filters, and one decision in the words of `ephor why`, with the keyboard alone.
func TestDecisionsPage(t *testing.T) {
	refusal := decision.Result{Policy: "require-team", Rule: "team", Status: "fail", Action: "Enforce", Message: "validation error: a team is needed", Path: "/metadata/labels/team/"}
	pass := decision.Result{Policy: "require-probes", Rule: "probes", Status: "pass", Action: "Audit"}
	records := []decision.Record{
		decided("u-1", 5, "shop", "web-1", "jane", decision.Refused, refusal, pass),
		decided("u-2", 10, "shop", "web-2", "john", decision.Passed, pass),
		decided("u-3", 15, "billing", "api", "jane", decision.Violating, decision.Result{Policy: "require-probes", Rule: "probes", Status: "fail", Action: "Audit", Message: "no probes"}),
		decided("u-4", 3*24*60, "shop", "old", "jane", decision.Refused, refusal),
	}
	records[1].Share = 0.01
	for i := range 120 {
		records = append(records, decided(fmt.Sprint("m-", i), 30+i, "many", fmt.Sprint("pod-", i), "robot", decision.Warned, pass))
	}
	s := serve(t, false, func(o *dashboard.Options) { o.Decisions = decisionsOf(t, records...) })
	ready(t, s.url, "", func(int) bool { return true })
	b := open(t, s.url)
	b.Until(loaded)
	if got := pages(b); got != "Reports, Decisions" {
		t.Errorf("the pages: %q", got)
	}
	b.Script(nil, `document.querySelector("#to-decisions").focus()`)
	b.Type("#to-decisions", browser.Enter)
	b.Until(`return location.hash === "#page=decisions"`)
	b.Until(loaded)
	var heading, current string
	b.Script(&heading, `return document.querySelector("h1").innerText + "|" + document.title`)
	b.Script(&current, `return document.querySelector("#pages [aria-current=page]").innerText`)
	if heading != "Decisions|Decisions · Ephor" || current != "Decisions" || focus(b) != "Decisions" {
		t.Errorf("the page is %q, the link %q, the focus on %q", heading, current, focus(b))
	}
	if got := b.Text("#decisions-hint"); got != "100 decisions, the newest first; there are more." {
		t.Error(got)
	}
	b.Click("#more-decisions")
	b.Until(`return document.querySelectorAll("#decisions tbody tr").length === 123`)
	if got := texts(b, "#decisions tbody tr"); !strings.Contains(got[0], "refused CREATE Pod/web-1 shop jane require-team") || !strings.Contains(got[1], "passed one of about 100 CREATE Pod/web-2 shop john require-probes") {
		t.Errorf("the newest: %q, %q", got[0], got[1])
	}
	accessible(t, b)

	filtered := func(want string) {
		t.Helper()
		b.Until(loaded)
		b.Until(`return [...document.querySelectorAll("#decisions tbody .choose")].map((e) => e.innerText).join(",") === arguments[0]`, want)
	}
	choose := func(id, value string) {
		t.Helper()
		b.Script(nil, `const e = document.getElementById(arguments[0]); e.value = arguments[1]; e.dispatchEvent(new Event("change"))`, id, value)
	}
	b.Type("#decisions-namespace", "sh*")
	filtered("CREATE Pod/web-1,CREATE Pod/web-2")
	choose("decisions-since", "7d")
	filtered("CREATE Pod/web-1,CREATE Pod/web-2,CREATE Pod/old")
	choose("decisions-verdict", "refused")
	filtered("CREATE Pod/web-1,CREATE Pod/old")
	b.Click("#clear-decisions")
	b.Until(`return document.querySelectorAll("#decisions tbody tr").length === 100`)
	b.Type("#decisions-policy", "require-p*")
	b.Type("#decisions-user", "jane")
	filtered("CREATE Pod/web-1,CREATE Pod/api")

	// One decision, in the words of `ephor why`. Enter opens it, and closing it restores the focus.
	b.Script(nil, `document.querySelector("#decisions .choose").focus()`)
	b.Type("#decisions .choose", browser.Enter)
	b.Until(`return !document.querySelector("#decision").hidden`)
	b.Until(loaded)
	if got := focus(b); got != "One decision" {
		t.Errorf("the focus is on %q", got)
	}
	picture(t, b, "-decisions", 700)
	words := records[0].Explain()
	shown := b.Text("#decision-body")
	for _, want := range append([]string{words.Summary, words.How, words.Rules[0].Title, words.Rules[1].Title, "UID u-1"}, words.Rules[0].Lines...) {
		if !strings.Contains(shown, want) {
			t.Errorf("the decision lacks %q:\n%s", want, shown)
		}
	}
	var record decision.Record
	b.Script(&record, `return JSON.parse(document.querySelector("#decision-body pre").textContent)`)
	if record.UID != "u-1" || len(record.Rules) != 2 || record.Schema != decision.Schema {
		t.Errorf("the record is %+v", record)
	}
	accessible(t, b)
	b.Script(nil, `document.querySelector("#close-decision").focus()`)
	b.Type("#close-decision", browser.Enter)
	b.Until(`return document.querySelector("#decision").hidden`)
	b.Until(loaded)
	if got := focus(b); got != "CREATE Pod/web-1" {
		t.Errorf("afterwards the focus is on %q", got)
	}
	b.Open(s.url + "#page=decisions&uid=none")
	b.Until(`return document.querySelector("#decision-body").innerText.includes("No decision that you may see has the UID none")`)
	b.Open(s.url + "#page=impact")
	b.Until(`return document.querySelector("#impact-report").innerText.includes("No policies can be evaluated here")`)
	calm(t, b)
}

// Texts of requests and rules are shown as text, on both pages.
func TestHostileDecisions(t *testing.T) {
	var records []decision.Record
	for i, text := range attacks {
		r := decided(fmt.Sprint("h-", i), i, text, text, text, decision.Refused, decision.Result{Policy: text, Rule: text, Status: "fail", Action: text, Message: text, Path: text, Exceptions: []string{text}})
		r.Kind, r.Groups, r.Subresource = text, []string{text}, text
		records = append(records, r)
	}
	s := serve(t, false, func(o *dashboard.Options) { o.Decisions = decisionsOf(t, records...) })
	ready(t, s.url, "", func(int) bool { return true })
	b := open(t, s.url+"#page=decisions")
	b.Until(loaded)
	for i, text := range attacks {
		b.Open(fmt.Sprintf("%s#page=decisions&uid=h-%d", s.url, i))
		b.Until(`return document.querySelector("#decision-body").textContent.includes("UID " + arguments[0]) && document.querySelectorAll("#decisions tbody tr").length === arguments[1]`, fmt.Sprint("h-", i), len(attacks))
		var page string
		b.Script(&page, `return document.querySelector("#decisions").textContent + document.querySelector("#decision-body").textContent`)
		if strings.Count(page, text) < 8 {
			t.Errorf("%q is not shown as it is", text)
		}
	}
	b.Open(s.url + "#page=decisions&since=%3Cb%3E&verdict=%3Cscript%3E&namespace=%3Cimg%20src=x%20onerror=%22window.attacked='hash'%22%3E&uid=%3Cb%3E")
	b.Until(loaded)
	harmless(t, b, "at the end")
	calm(t, b, "400 (Bad Request)")
}

// The page of impact: a policy of the cluster is edited, and evaluated on requests and objects that the reader may read.
func TestImpactPage(t *testing.T) {
	namespaces(t, "impact-a", "impact-b")
	pod := func(ns, name string, labels map[string]any) any {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": ns, "name": name, "labels": labels}, "data": map[string]any{"word": "word of " + ns + "/" + name}}
	}
	apply(t, pod("impact-a", "plain", nil), pod("impact-a", "good", map[string]any{"team": "x"}), pod("impact-b", "theirs", nil),
		newReport("impact-a", "Pod", "one", result("p", "r", "pass", "high", "yes")), newReport("impact-b", "Pod", "one", result("p", "r", "pass", "high", "yes")))
	inForce := `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: impact-team}
spec:
  validationFailureAction: Audit
  rules:
  - name: team
    match: {any: [{resources: {kinds: [ConfigMap], names: [plain, good, second, theirs], namespaces: ["impact-*"]}}]}
    validate: {message: "a team is needed: {{ request.object.data.word }}", pattern: {metadata: {labels: {team: "?*"}}}}
`
	cluster.Apply(t, inForce)
	token := account(t, "impact-a", "impact-reader", "impact-a")
	apply(t,
		map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": map[string]any{"name": "impact", "namespace": "impact-a"}, "rules": []any{
			map[string]any{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": []any{"list", "get"}}}},
		map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": "impact", "namespace": "impact-a"},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": "impact-a", "name": "impact-reader"}},
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "impact"}},
		map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": "impact-policies"}, "rules": []any{
			map[string]any{"apiGroups": []any{"kyverno.io"}, "resources": []any{"clusterpolicies"}, "verbs": []any{"list", "get"}}}},
		map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": "impact-policies"},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": "impact-a", "name": "impact-reader"}},
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "impact-policies"}})
	s := serve(t, true, func(o *dashboard.Options) {
		evaluating(t, o)
		o.Decisions = requestsOf(t, "impact-a/plain", "impact-a/second", "impact-b/theirs")
	})
	ready(t, s.url, token, func(n int) bool { return n >= 2 })
	b := open(t, s.url+"#page=impact")
	b.Until(`return !document.querySelector("#login").hidden`)
	b.Type("#token", token+browser.Enter)
	b.Until(loaded)
	if got := pages(b); got != "Reports, Decisions, Exceptions, Impact" {
		t.Errorf("the pages: %q", got)
	}
	accessible(t, b)

	// A policy of the cluster is selected, and changed to Enforce.
	b.Script(nil, `const e = document.querySelector("#impact-choice"); e.value = [...e.options].find((o) => o.text.includes("impact-team")).value; e.dispatchEvent(new Event("change"))`)
	b.Until(`return document.querySelector("#impact-policies").value.includes("impact-team")`)
	b.Script(nil, `const e = document.querySelector("#impact-policies"); e.value = e.value.replace("validationFailureAction: Audit", "validationFailureAction: Enforce")`)
	source := func(on string) {
		t.Helper()
		b.Script(nil, `const e = document.querySelector("#impact-on"); e.value = arguments[0]; e.dispatchEvent(new Event("change"))`, on)
	}
	source("objects")
	b.Script(nil, `document.querySelector("#impact-run").focus()`)
	b.Type("#impact-run", browser.Enter)
	done := `return document.querySelector("#page-impact").getAttribute("aria-busy") === "false" && document.querySelector("#impact-report").childElementCount > 0`
	b.Until(done)
	picture(t, b, "-impact", 1500)
	if got := b.Text("#impact-hint"); !strings.Contains(got, " 2 for the policies: 1 refused") {
		t.Errorf("what was found: %q", got)
	}
	report := b.Text("#impact-report")
	for _, want := range []string{"newly refused", "By namespace", "impact-a", "By owner", "ConfigMap/plain", "By rule", "First examples", "Not known"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
	if strings.Contains(report, "theirs") || strings.Contains(report, "impact-b") {
		t.Errorf("the report has objects that the reader may not read:\n%s", report)
	}
	if got := focus(b); got != "Evaluate" {
		t.Errorf("the focus is on %q", got)
	}
	accessible(t, b)
	if got := b.Text("#impact-report .examples"); !strings.Contains(got, "a team is needed: word of impact-a/plain") || !strings.Contains(got, "in force: admitted it") {
		t.Errorf("an example: %s", got)
	}
	var made impact.Report
	b.Script(&made, `return JSON.parse([...document.querySelectorAll("#impact-report pre")].at(-1).textContent)`)
	if made.After.Refused == 0 || made.Effect == nil || made.Effect.NewlyRefused != made.After.Refused {
		t.Errorf("the report as JSON: %+v", made)
	}

	// The same for recorded requests, which have a user.
	source("requests")
	b.Click("#impact-run")
	b.Until(done)
	if got := b.Text("#impact-hint"); got != "2 requests, 2 for the policies: 2 refused, 0 warned, 0 changed, 0 with errors." {
		t.Errorf("on requests: %q", got)
	}
	report = b.Text("#impact-report")
	if !strings.Contains(report, "By user") || !strings.Contains(report, "jane 2 2") && !strings.Contains(report, "jane\t2\t2") || strings.Contains(report, "theirs") {
		t.Errorf("the report on requests:\n%s", report)
	}

	// A mistake is reported with its line, and announced to screen readers.
	b.Script(nil, `const e = document.querySelector("#impact-policies"); e.value = e.value.replace("pattern:", "patern:")`)
	b.Click("#impact-run")
	b.Until(`return document.querySelector("#impact-mistakes[role=alert]").innerText.includes("did you mean")`)
	if got := b.Text("#impact-hint"); got != "Not evaluated." {
		t.Error(got)
	}
	b.Click("#sign-out")
	b.Until(`return !document.querySelector("#login").hidden`)
	var left string
	if b.Script(&left, `return document.querySelector("#impact-policies").value + document.querySelector("#impact-report").textContent`); left != "" {
		t.Errorf("what was seen is still there: %q", left)
	}
	harmless(t, b, "at the end")
	calm(t, b, "422 (Unprocessable", "401 (Unauthorized)")
}

// The reports controller evaluates policies with the rights of the token, not with its own.
func TestProcessEvaluates(t *testing.T) {
	namespaces(t, "evaluate-a", "evaluate-b")
	for _, ns := range []string{"evaluate-a", "evaluate-b"} {
		apply(t, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": ns, "name": "words"}, "data": map[string]any{"word": "planted in " + ns}})
	}
	policies := `{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: evaluate}, spec: {validationFailureAction: Enforce, rules: [{name: all,
		match: {any: [{resources: {kinds: [ConfigMap], names: [words]}}]}, validate: {message: "it says {{ request.object.data.word }}", deny: {}}}]}}`
	reader := account(t, "evaluate-a", "evaluate-reader", "evaluate-a", "evaluate-b")
	none := account(t, "evaluate-a", "evaluate-none", "*", "")
	apply(t,
		map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": map[string]any{"name": "evaluate", "namespace": "evaluate-a"}, "rules": []any{
			map[string]any{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": []any{"list"}}}},
		map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": "evaluate", "namespace": "evaluate-a"},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": "evaluate-a", "name": "evaluate-reader"}},
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "evaluate"}})
	r := cluster.Start(t, devcluster.Reports)
	client := trusting(t)
	url := "https://" + r.DashboardAddr + "/api/v1/"
	for _, c := range []struct {
		token   string
		refused int
	}{{reader, 1}, {none, 0}} {
		var report impact.Report
		evaluateTLS(t, client, url+"impact", c.token, map[string]any{"policies": policies, "on": "objects", "namespaces": []string{"evaluate-a", "evaluate-b"}}, &report)
		if report.After.Refused != c.refused || report.Requests < c.refused || report.Requests > 2 {
			t.Errorf("%d refused of %d, want %d: %+v", report.After.Refused, report.Requests, c.refused, report)
		}
		for _, x := range report.Examples {
			if x.Resource.Namespace != "evaluate-a" || !strings.Contains(x.Message, "planted in evaluate-a") {
				t.Errorf("an example: %+v", x)
			}
		}
	}
	if log := r.Tail(100000); strings.Contains(log, "planted in") || strings.Contains(log, reader) {
		t.Error("the log holds an object, or a token")
	}
	if status, _ := askTLS(t, client, url+"policies", reader); status != http.StatusOK {
		t.Errorf("policies: %d", status)
	}
}
