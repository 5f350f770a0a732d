package reports

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/rollout"
)

// A rollout counts the requests that a server shows according to the rights of its reader, and reports what the server leaves out.
func TestRolloutServer(t *testing.T) {
	var page struct {
		decision.Page
		Unasked int `json:"unasked"`
	}
	for i := range 300 {
		r := decision.Record{
			Schema: decision.Schema, Time: time.Now().Add(time.Duration(i-300) * time.Minute), UID: fmt.Sprint("uid-", i), Webhook: "ValidatingWebhookConfiguration", User: "jane",
			Operation: "CREATE", Version: "v1", Kind: "Pod", Namespace: "lab", Name: fmt.Sprint("api-", i), Verdict: decision.Passed, Allowed: true, Share: 1,
			Rules: []decision.Result{{Policy: "require-team", Rule: "team", Status: "pass", Action: "Audit"}},
		}
		if i%100 == 0 {
			r.Verdict, r.Rules[0].Status, r.Rules[0].Message = decision.Violating, "fail", "no team"
		}
		page.Records = append(page.Records, r)
	}
	dashboard := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := r.URL.Query()
		if r.Header.Get("Authorization") != "Bearer the-token" {
			http.Error(w, `{"error":"who asks?"}`, http.StatusUnauthorized)
			return
		}
		if r.URL.Path != "/api/v1/decisions" || v.Get("requests") != "true" || v.Get("order") != "oldest" || !slices.Equal(v["namespace"], []string{"lab"}) {
			t.Errorf("the server is asked for %s", r.URL)
		}
		out := page
		if since, err := time.Parse(time.RFC3339Nano, v.Get("since")); err == nil {
			out.Records = slices.DeleteFunc(slices.Clone(page.Records), func(r decision.Record) bool { return r.Time.Before(since) })
		}
		_ = json.NewEncoder(w).Encode(out)
	}))
	defer dashboard.Close()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	report := file("reports.yaml", `{apiVersion: wgpolicyk8s.io/v1alpha2, kind: PolicyReport, metadata: {name: x, namespace: lab}, scope: {apiVersion: v1, kind: Pod, name: x, namespace: lab},
results: [{policy: require-team, rule: team, result: pass, source: kyverno}]}`)
	config := file("config", `{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: u, user: {token: the-token}}, {name: other, user: {token: another}}],
contexts: [{name: mine, context: {cluster: c, user: u}}, {name: other, context: {cluster: c, user: other}}], current-context: other}`)
	server := []string{"--server", dashboard.URL, "--certificate-authority", file("ca", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: dashboard.Certificate().Raw})))}
	run := func(args ...string) (plan rollout.Plan, said string, err error) {
		t.Helper()
		var out, problems bytes.Buffer
		cmd := NewRollout()
		cmd.SetOut(&out)
		cmd.SetErr(&problems)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(append(append([]string{"require-team", "-f", report, "-n", "lab", "-o", "json"}, server...), args...))
		err = cmd.ExecuteContext(t.Context())
		if out.Len() > 0 {
			if err := json.Unmarshal(out.Bytes(), &plan); err != nil {
				t.Fatalf("%v: %s", err, out.String())
			}
		}
		return plan, fmt.Sprint(plan.Lacks, problems.String()), err
	}
	token := []string{"--token-file", file("token", "the-token")}
	plan, said, err := run(token...)
	if err == nil || plan.Verdict != rollout.Unsafe || len(plan.Namespaces) != 1 || plan.Namespaces[0].Requests == nil || plan.Namespaces[0].Requests.Evaluated != 300 || plan.Namespaces[0].Requests.WouldRefuse != 3 {
		t.Fatalf("%+v, %v, %s", plan, err, said)
	}
	if plan, said, err := run("--kubeconfig", config, "--context", "mine", "--since", "90m"); err != nil || plan.Verdict != rollout.Safe || plan.Namespaces[0].Requests.Evaluated != 89 && plan.Namespaces[0].Requests.Evaluated != 90 {
		t.Errorf("of the last 90 minutes: %+v, %v, %s", plan, err, said)
	}
	if _, said, err := run("--kubeconfig", config); err == nil || !strings.Contains(said, "401") {
		t.Errorf("the token of another context: %v, %s", err, said)
	}
	page.Unasked = 3
	if plan, said, err := run(append(token, "--since", "90m")...); err == nil || plan.Verdict != rollout.Unknown || !strings.Contains(said, "the requests of 3 namespaces") {
		t.Errorf("a server that leaves namespaces out: %+v, %v, %s", plan.Verdict, err, said)
	}
	if _, _, err := run("--metrics-url", "http://127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "--server both count requests") {
		t.Errorf("%v", err)
	}
}

// For a request that the server withholds, the rollout counts the results of the rules, and the plan says so.
func TestRolloutWithheld(t *testing.T) {
	d := decided{policy: "p", to: rollout.New(rollout.Options{Policy: "p"}), counts: map[sampleKey]float64{}, apart: map[aboutKey]bool{}}
	d.add(&impact.Evaluated{Err: decision.ErrWithheld, Record: impact.Record{Decision: &decision.Record{
		Namespace: "lab", Kind: "Pod", Share: 1, Rules: []decision.Result{{Policy: "p", Rule: "r", Status: "fail"}},
	}}})
	if n := d.counts[sampleKey{"lab", "r", "fail"}]; n != 1 || !strings.Contains(fmt.Sprint(d.lacks()), "1 reviews of objects that you may not list") {
		t.Errorf("%v violations, %q", n, d.lacks())
	}
}
