package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

func pod(namespace, name string) *policy.Request {
	return &policy.Request{Review: policy.Review{
		Operation: policy.Create, GVK: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: namespace, Name: name,
		Object: value.Of(map[string]any{"metadata": map[string]any{"name": name}}),
	}}
}

func program(namespace, name string, s policy.Settings) *policy.Program {
	return &policy.Program{Namespace: namespace, Name: name, Settings: s, Rules: []*policy.Rule{{Name: "r"}}}
}

func outcome(req *policy.Request, results ...policy.Result) policy.Outcome {
	for i := range results {
		results[i].Rule = results[i].Program.Rules[0]
	}
	return policy.Outcome{Request: req, Results: results}
}

func result(p *policy.Program, s policy.Status, message string) policy.Result {
	return policy.Result{Program: p, Yield: policy.Yield{Status: s, Message: message}}
}

func TestEntries(t *testing.T) {
	scored, unscored := program("", "a", policy.Settings{Scored: true}), program("", "b", policy.Settings{})
	enforced := result(scored, policy.StatusFail, "m")
	enforced.Action = policy.Deny
	o := outcome(pod("ns", "p"), result(scored, policy.StatusFail, "m"), enforced, result(unscored, policy.StatusFail, "m"), result(unscored, policy.StatusPass, "m"))
	for _, c := range []struct {
		opts Options
		want string
	}{
		{Options{}, "fail fail warn pass"},
		{Options{AuditWarn: true}, "warn fail warn pass"},
		{Options{Matched: true}, "fail fail warn pass"},
	} {
		var got []string
		for _, e := range Entries(o, c.opts) {
			got = append(got, e.Status.String())
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%+v: %s, want %s", c.opts, s, c.want)
		}
	}
	if e := Entries(o, Options{})[0]; e.Resource.String() != "ns/Pod/p" {
		t.Errorf("the resource is %s", e.Resource)
	}
	unmatched := result(scored, policy.StatusSkip, "skip")
	unmatched.Unmatched = true
	o = outcome(pod("ns", "p"), unmatched, result(scored, policy.StatusSkip, "exempt"))
	if got := Entries(o, Options{Matched: true}); len(got) != 1 || got[0].Message != "exempt" {
		t.Errorf("entries of what the policies are about: %+v", got)
	}
	if got := Entries(o, Options{}); len(got) != 2 {
		t.Errorf("all entries: %+v", got)
	}
	if Entries(outcome(pod("", "p")), Options{}) != nil {
		t.Error("entries of nothing")
	}
}

func TestMessagesAndProperties(t *testing.T) {
	p := program("", "a", policy.Settings{Scored: true, Background: true})
	for _, c := range []struct {
		status policy.Status
		props  map[string]string
		want   string
	}{
		{policy.StatusFail, nil, "own"},
		{policy.StatusFail, map[string]string{"failMessage": "f", "passMessage": "p"}, "f"},
		{policy.StatusPass, map[string]string{"failMessage": "f", "passMessage": "p"}, "p"},
		{policy.StatusError, map[string]string{"errorMessage": "e"}, "e"},
		{policy.StatusSkip, map[string]string{"skipMessage": "s"}, "s"},
		{policy.StatusWarn, map[string]string{"warnMessage": "w", "message": "all"}, "all"},
	} {
		e := Entry{Program: p, Status: c.status, Message: "own", Properties: c.props}
		if got := e.ReportMessage(); got != c.want {
			t.Errorf("%s with %v: %q, want %q", c.status, c.props, got, c.want)
		}
	}
	e := Entry{Program: p, Properties: map[string]string{"k": "v"}, Exceptions: []*policy.Exception{{Namespace: "ns", Name: "one"}, {Name: "two"}}}
	if got := fmt.Sprint(e.ReportProperties()); got != "map[exceptions:one,two k:v process:background scan]" {
		t.Error(got)
	}
	p.Settings.Background = false
	if got := e.ReportProperties()["process"]; got != "admission review" {
		t.Error(got)
	}
}

func reports() []Report {
	global := program("", "global", policy.Settings{Scored: true, Background: true, Category: "Sample", Severity: "high"})
	local := program("ns", "local", policy.Settings{})
	var entries []Entry
	for _, name := range []string{"a", "b"} {
		entries = append(entries, Entries(outcome(pod("ns", name),
			result(local, policy.StatusFail, "validation error: x"), result(global, policy.StatusPass, "")), Options{})...)
	}
	return Merge(entries)
}

const wantYAML = `apiVersion: openreports.io/v1alpha1
kind: ClusterReport
metadata:
  name: merged
results:
- category: Sample
  policy: global
  properties:
    process: background scan
  resources:
  - apiVersion: v1
    kind: Pod
    name: a
    namespace: ns
  result: pass
  rule: r
  scored: true
  severity: high
  source: kyverno
  timestamp:
    nanos: 0
    seconds: 7
- category: Sample
  policy: global
  properties:
    process: background scan
  resources:
  - apiVersion: v1
    kind: Pod
    name: b
    namespace: ns
  result: pass
  rule: r
  scored: true
  severity: high
  source: kyverno
  timestamp:
    nanos: 0
    seconds: 7
source: ""
summary:
  error: 0
  fail: 0
  pass: 2
  skip: 0
  warn: 0

---
apiVersion: openreports.io/v1alpha1
kind: PolicyReport
metadata:
  name: local
  namespace: ns
results:
- message: 'validation error: x'
  policy: ns/local
  properties:
    process: admission review
  resources:
  - apiVersion: v1
    kind: Pod
    name: a
    namespace: ns
  result: warn
  rule: r
  source: kyverno
  timestamp:
    nanos: 0
    seconds: 7
source: ""
summary:
  error: 0
  fail: 0
  pass: 0
  skip: 0
  warn: 1

`

func TestYAML(t *testing.T) {
	var b bytes.Buffer
	if err := WriteYAML(&b, reports()[:2], 7); err != nil {
		t.Fatal(err)
	}
	if b.String() != wantYAML {
		t.Errorf("got\n%s\nwant\n%s", b.String(), wantYAML)
	}
}

func TestJSON(t *testing.T) {
	all := reports()
	if len(all) != 3 {
		t.Fatalf("%d reports, want the merged one and two of the namespaced policy", len(all))
	}
	var b bytes.Buffer
	if err := WriteJSON(&b, all, 7); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	n := 0
	for _, l := range lines {
		if l == "" || l == "---" {
			continue
		}
		n++
		if !strings.HasPrefix(l, `{"kind":"`) || !json.Valid([]byte(l)) {
			t.Errorf("not one report: %s", l)
		}
	}
	if n != 3 {
		t.Errorf("%d lines of JSON, want 3:\n%s", n, b.String())
	}
}

// Chunks are encoded in parallel and written in order.
func TestManyEntries(t *testing.T) {
	p := program("", "p", policy.Settings{})
	var entries []Entry
	for i := range 500 {
		entries = append(entries, Entries(outcome(pod("ns", fmt.Sprintf("p%03d", i)), result(p, policy.StatusPass, "")), Options{})...)
	}
	var b bytes.Buffer
	if err := WriteYAML(&b, Merge(entries), 0); err != nil {
		t.Fatal(err)
	}
	last := -1
	for i := range 500 {
		at := strings.Index(b.String(), fmt.Sprintf("name: p%03d\n", i))
		if at <= last {
			t.Fatalf("entry %d stands at %d, behind the one before it at %d", i, at, last)
		}
		last = at
	}
}

func BenchmarkYAML(b *testing.B) {
	p := program("", "p", policy.Settings{Scored: true})
	var entries []Entry
	for range 1000 {
		entries = append(entries, Entries(outcome(pod("ns", "p"), result(p, policy.StatusPass, "validation rule 'x' passed.")), Options{})...)
	}
	b.ReportAllocs()
	for b.Loop() {
		var w bytes.Buffer
		if err := WriteYAML(&w, Merge(entries), 0); err != nil {
			b.Fatal(err)
		}
	}
}
