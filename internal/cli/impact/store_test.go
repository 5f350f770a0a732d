package impact

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/decision/store"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/value"
)

const requireTeam = `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: require-team
spec:
  validationFailureAction: Enforce
  rules:
  - name: team
    match:
      any:
      - resources:
          kinds: [Pod]
    validate:
      message: a team is needed
      pattern:
        metadata:
          labels:
            team: "?*"
`

// counted counts the records that a Feed has stored or dropped.
type counted struct{ atomic.Int64 }

func (c *counted) DecisionKept(string)    { c.Add(1) }
func (c *counted) DecisionsDropped(n int) { c.Add(int64(n)) }

// filled returns a store with n decisions about Pods and their requests, one every minute until a time. Every second Pod has a team.
func filled(t *testing.T, path string, n int, until time.Time) {
	t.Helper()
	s, err := store.NewSQLite(path, store.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	stored := &counted{}
	f := decision.NewFeed(decision.Options{Store: s, Keep: decision.Keep{Share: 1}, Capacity: n, Users: decision.NameUsers, Requests: true, Observer: stored, Log: slog.New(slog.DiscardHandler)})
	gvk, gvr := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	for i := range n {
		labels := `{}`
		if i%2 == 0 {
			labels = `{"team":"a"}`
		}
		name := fmt.Sprint("web-", i)
		f.Put(decision.Review{
			Request: &policy.Request{Review: policy.Review{
				UID: fmt.Sprint("uid-", i), Operation: policy.Create, GVK: gvk, RequestGVK: gvk, GVR: gvr, Namespace: "shop", Name: name, User: &policy.User{Username: "jane"},
				Object: value.FromJSON(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `","namespace":"shop","labels":` + labels + `},"spec":{}}`),
			}},
			Webhook: "ValidatingWebhookConfiguration", Decision: policy.Decision{Allowed: false}, At: until.Add(time.Duration(i-n) * time.Minute),
		})
	}
	// The time for the last writes of a process that ends is short on a busy machine.
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); f.Run(ctx) }() // Run closes the store
	for stored.Load() < int64(n) && t.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-ended
}

// evaluate runs the command, and returns its report.
func evaluate(t *testing.T, args ...string) (*impact.Report, error) {
	t.Helper()
	var out, problems bytes.Buffer
	cmd := New(nil)
	cmd.SetOut(&out)
	cmd.SetErr(&problems)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(append(args, "-o", "json"))
	err := cmd.ExecuteContext(t.Context())
	report := &impact.Report{}
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), report); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
	}
	if problems.Len() > 0 {
		t.Log(problems.String())
	}
	return report, err
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Policies are evaluated on the decisions of a store in the requested period.
func TestStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.db")
	filled(t, path, 1300, time.Now())
	rules := file(t, "policy.yaml", requireTeam)
	report, err := evaluate(t, rules, "--decisions", "sqlite:"+path)
	if err != nil || report.Requests != 1300 || report.After.Refused != 650 || len(report.Unreadable) > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	if x := report.Examples[0]; x.UID != "uid-1" || !strings.Contains(x.At, "uid-1") || x.User != "jane" {
		t.Errorf("the first example is %+v", x)
	}
	report, err = evaluate(t, rules, "--decisions", "sqlite:"+path, "--since", "10h")
	if err != nil || report.Requests < 599 || report.Requests > 601 {
		t.Errorf("%d requests of ten hours, %v", report.Requests, err)
	}
	if report, err := evaluate(t, rules, "--decisions", "sqlite:"+path+".none"); err == nil || len(report.Unreadable) != 1 {
		t.Errorf("a store that does not exist gives %+v, %v", report, err)
	}
	_, err = evaluate(t, rules, "--decisions", "postgres://ephor:the-password@127.0.0.1:1/none")
	if err == nil || strings.Contains(err.Error(), "the-password") {
		t.Errorf("a database that cannot be reached gives %v", err)
	}
}

// Policies are evaluated on the decisions of a server. The output reports decisions that the server withholds.
func TestServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.db")
	filled(t, path, 700, time.Now())
	reader, err := store.ReadSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	dashboard := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := r.URL.Query()
		if v.Get("requests") != "true" || v.Get("order") != "oldest" || r.Header.Get("Authorization") != "Bearer the-token" {
			http.Error(w, `{"error":"no"}`, http.StatusBadRequest)
			return
		}
		page, err := reader.Page(r.Context(), &decision.Query{Requests: true, Oldest: true}, v.Get("after"), 500)
		if err != nil {
			http.Error(w, `{"error":"no"}`, http.StatusServiceUnavailable)
			return
		}
		for i := range page.Records {
			if strings.HasSuffix(page.Records[i].UID, "9") {
				page.Records[i].Request = &decision.Request{Withheld: true}
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"records": page.Records, "next": page.Next, "unasked": 3})
	}))
	defer dashboard.Close()
	rules, token := file(t, "policy.yaml", requireTeam), file(t, "token", "the-token")
	authority := file(t, "ca", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: dashboard.Certificate().Raw})))
	report, err := evaluate(t, rules, "--server", dashboard.URL, "--token-file", token, "--certificate-authority", authority)
	if err != nil || report.Records != 700 || report.Requests != 630 || report.After.Refused != 280 {
		t.Fatalf("%+v, %v", report, err)
	}
	said := fmt.Sprint(report.Lacks)
	if !strings.Contains(said, "may not list: their records show only the decision 70") || !strings.Contains(said, "in 3 namespaces") {
		t.Errorf("%s", said)
	}
	wrong := file(t, "token", "another")
	if report, err := evaluate(t, rules, "--server", dashboard.URL, "--token-file", wrong, "--certificate-authority", authority); err == nil || len(report.Unreadable) != 1 {
		t.Errorf("a server that refuses gives %+v, %v", report, err)
	}
	if _, err := evaluate(t, rules, "--server", "127.0.0.1:1"); err == nil {
		t.Error("an address without https is one of a server")
	}
}

// BenchmarkStore measures impact on the requests of a store: it reads and decodes Pods of 7 kB, each with a different name, and evaluates
// eighteen policies.
func BenchmarkStore(b *testing.B) {
	pod, err := os.ReadFile("../../decision/testdata/pod.json")
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "d.db")
	s, err := store.NewSQLite(path, store.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	var kept counted
	f := decision.NewFeed(decision.Options{Store: s, Keep: decision.Keep{Share: 1}, Capacity: b.N, Users: decision.NameUsers, Requests: true, Observer: &kept, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	done := make(chan struct{})
	go func() { f.Run(ctx); close(done) }()
	gvk, gvr := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	for i := range b.N {
		for int64(i)-kept.Load() > 500 { // keeps the waiting records below the limit of their size
			time.Sleep(time.Millisecond)
		}
		name := fmt.Sprint("web-", i)
		f.Put(decision.Review{
			Request: &policy.Request{Review: policy.Review{
				UID: fmt.Sprint("uid-", i), Operation: policy.Create, GVK: gvk, RequestGVK: gvk, GVR: gvr, Namespace: "shop", Name: name, User: &policy.User{Username: "jane"},
				Object: value.FromJSON(strings.ReplaceAll(string(pod), "NAME", name)),
			}},
			Webhook: "ValidatingWebhookConfiguration", At: time.Unix(int64(i), 0),
		})
	}
	cancel()
	<-done
	set := load.InForce(nil, []string{"../../../examples/pod-security"}, source.Options{})
	if len(set.Programs) < 18 {
		b.Fatalf("%d policies: %v", len(set.Programs), set.Diags)
	}
	after := impact.NewReplica(set.Programs, impact.Options{})
	c := impact.NewCollector(after, nil, 5)
	b.ReportAllocs()
	b.ResetTimer()
	if err := impact.Run(b.Context(), impact.Decisions(time.Time{}, stored(b.Context(), "sqlite:"+path, decision.Query{})), after, nil, c); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	if r := c.Report(b.Context(), impact.Facts{}); r.Matched != b.N {
		b.Fatalf("%d of %d requests matched: %v", r.Matched, b.N, r.Lacks)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
