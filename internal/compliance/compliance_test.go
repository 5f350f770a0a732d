package compliance

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func decoded(t *testing.T, text string) Report {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	if !IsReport(object) {
		t.Fatalf("no report: %s", text)
	}
	r, diags := Decode(object)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	return r
}

const podReport = `
apiVersion: wgpolicyk8s.io/v1alpha2
kind: PolicyReport
metadata: {name: uid-1, namespace: shop}
scope: {apiVersion: v1, kind: Pod, name: web, namespace: shop, uid: uid-1}
results:
- {policy: labels, rule: team, result: fail, severity: high, category: Sample, source: kyverno, message: no team}
- {policy: labels, rule: owner, result: pass, severity: high, source: kyverno}
- {policy: shop/own, rule: x, result: error, source: kyverno, message: broken}
- {policy: limits, rule: y, result: skip, severity: low, source: kyverno}
`

const namespaceReport = `
apiVersion: openreports.io/v1alpha1
kind: ClusterReport
metadata: {name: uid-2}
scope: {apiVersion: v1, kind: Namespace, name: shop, uid: uid-2}
results:
- {policy: labels, rule: team, result: warn, severity: high, description: no team}
`

// A report of another tool, for a whole namespace, whose results name resources.
const scannerReport = `
apiVersion: wgpolicyk8s.io/v1alpha2
kind: PolicyReport
metadata: {name: images, namespace: lab}
results:
- policy: cve
  result: fail
  severity: critical
  source: scanner
  resources: [{kind: Pod, name: a}, {kind: Pod, name: b, namespace: other}]
`

func collected(t *testing.T, o Options) *Collector {
	t.Helper()
	c := New(o)
	for _, text := range []string{podReport, namespaceReport, scannerReport} {
		c.Add(decoded(t, text))
	}
	return c
}

func words(lines []Line) string {
	var out []string
	for _, l := range lines {
		share := "-"
		if l.Compliance != nil {
			share = fmt.Sprint(*l.Compliance)
		}
		out = append(out, fmt.Sprintf("%s=%d/%d/%d/%d/%d:%s", l.Name, l.Pass, l.Fail, l.Warn, l.Error, l.Skip, share))
	}
	return strings.Join(out, " ")
}

func TestSummary(t *testing.T) {
	s := collected(t, Options{Keep: 10}).Summary(nil)
	for _, c := range []struct{ what, got, want string }{
		{"totals", words([]Line{s.Totals}), "total=1/3/1/1/1:16.6"},
		{"policies", words(s.ByPolicy), "cve=0/2/0/0/0:0 labels=1/1/1/0/0:33.3 shop/own=0/0/0/1/0:0 limits=0/0/0/0/1:-"},
		{"namespaces", words(s.ByNamespace), "=0/0/1/0/0:0 lab=0/1/0/0/0:0 other=0/1/0/0/0:0 shop=1/1/0/1/1:33.3"},
		{"severities", words(s.BySeverity), "critical=0/2/0/0/0:0 high=1/1/1/0/0:33.3 low=0/0/0/0/1:- =0/0/0/1/0:0"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.what, c.got, c.want)
		}
	}
	var kept []string
	for _, r := range s.Results {
		kept = append(kept, string(r.Result)+" "+r.Policy+" "+r.Resource.String()+" "+r.Message)
	}
	want := "fail cve lab/Pod/a |fail cve other/Pod/b |fail labels shop/Pod/web no team|error shop/own shop/Pod/web broken|warn labels Namespace/shop no team"
	if got := strings.Join(kept, "|"); got != want {
		t.Errorf("results\n%s, want\n%s", got, want)
	}
	if s.Reports != 3 || s.Omitted != 0 {
		t.Errorf("%d reports, %d omitted", s.Reports, s.Omitted)
	}
}

// Results that a reader may not see do not count in any number.
func TestSummaryOfSomeNamespaces(t *testing.T) {
	s := collected(t, Options{Keep: 1}).Summary(func(ns string) bool { return ns == "lab" || ns == "other" })
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "shop") || strings.Contains(string(text), "labels") {
		t.Errorf("%s", text)
	}
	if s.Totals.Fail != 2 || s.Totals.Evaluated() != 2 || len(s.Results) != 0 || s.Omitted != 2 {
		t.Errorf("%s", text)
	}
}

func TestFilter(t *testing.T) {
	for _, c := range []struct {
		name   string
		filter Filter
		want   string // totals, and the number of results that are kept
	}{
		{"policies", Filter{Policies: []string{"lab*"}}, "1/1/1/0/0 2"},
		{"namespaces leave out what lies in none", Filter{Namespaces: []string{"*"}}, "1/3/0/1/1 4"},
		{"a namespace", Filter{Namespaces: []string{"sh?p"}}, "1/1/0/1/1 2"},
		{"severities", Filter{Severities: []string{"critical", "low"}}, "0/2/0/0/1 2"},
		{"no severity", Filter{Severities: []string{"none"}}, "0/0/0/1/0 1"},
		{"results that were asked for are kept", Filter{Results: []Status{Pass, Skip}}, "1/0/0/0/1 2"},
		{"kinds", Filter{Kinds: []string{"Namespace"}}, "0/0/1/0/0 1"},
		{"sources", Filter{Sources: []string{"scan*"}}, "0/2/0/0/0 2"},
		{"nothing", Filter{Policies: []string{"none"}}, "0/0/0/0/0 0"},
	} {
		s := collected(t, Options{Filter: c.filter, Keep: 10}).Summary(nil)
		n := s.Totals.Counts
		if got := fmt.Sprintf("%d/%d/%d/%d/%d %d", n.Pass, n.Fail, n.Warn, n.Error, n.Skip, len(s.Results)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestThreshold(t *testing.T) {
	for _, c := range []struct{ terms, want string }{
		{"fail", "fail (3)"},
		{"warn,error", "warn (1), error (1)"},
		{"critical", "critical (2)"},
		{"low", "low (3)"},
		{"warn:critical", ""},
		{"warn:medium", "warn:medium (1)"},
		{"error:info", ""}, // its policy has no severity
		{"", ""},
	} {
		threshold, err := ParseThreshold(strings.FieldsFunc(c.terms, func(r rune) bool { return r == ',' }))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(threshold.Reached(collected(t, Options{}).Summary(nil)), ", "); got != c.want {
			t.Errorf("%s: %q, want %q", c.terms, got, c.want)
		}
	}
	for _, bad := range []string{"", "failure", "fail:", "fail:none", "high:fail"} {
		if _, err := ParseThreshold([]string{bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// A result that cannot be decoded is an error, and is never silently dropped; the others count.
func TestDecodeMistakes(t *testing.T) {
	good := map[string]any{"policy": "p", "result": "fail"}
	for want, results := range map[string]any{
		"results: this is not a list":                          "x",
		"results[1]: this is not an object":                    []any{good, "x"},
		"results[1].policy: the name of the policy is missing": []any{good, map[string]any{"result": "fail"}},
		`results[1].result: "bad" is not one of`:               []any{good, map[string]any{"policy": "p", "result": "bad"}},
		`results[1].severity: "x" is not one of`:               []any{good, map[string]any{"policy": "p", "result": "fail", "severity": "x"}},
	} {
		r, diags := Decode(map[string]any{"results": results})
		if len(diags) != 1 || !strings.Contains(diags.Error(), want) {
			t.Errorf("%v, want %s", diags, want)
		}
		if _, ok := results.([]any); ok && len(r.Results) != 1 {
			t.Errorf("%s: %d results", want, len(r.Results))
		}
	}
	if IsReport(map[string]any{"apiVersion": "v1", "kind": "PolicyReport"}) {
		t.Error("a kind of another group is a report")
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	c := New(Options{Keep: 1})
	long := strings.Repeat("é", maxText)
	given := map[string]string{"a": long, "b": "short"}
	c.Add(Report{Results: []Result{{Policy: "p", Result: Fail, Message: long, Properties: given}}})
	r := c.Summary(nil).Results[0]
	for _, text := range []string{r.Message, r.Properties["a"]} {
		if len(text) > maxText+len("…") || !strings.HasSuffix(text, "é…") {
			t.Errorf("%d bytes, the end is %q", len(text), text[len(text)-6:])
		}
	}
	if r.Properties["b"] != "short" || given["a"] != long {
		t.Errorf("%v; the report itself was changed: %t", r.Properties["b"], given["a"] != long)
	}
}

// Adding a report costs no memory if an earlier report has the same policy and namespace.
func BenchmarkAdd(b *testing.B) {
	r := Report{Namespace: "shop"}
	for i := range 18 {
		r.Results = append(r.Results, Result{Policy: fmt.Sprint("policy-", i), Result: Pass, Severity: "medium", Resource: Resource{Kind: "Pod", Namespace: "shop", Name: "a"}})
	}
	c := New(Options{Keep: 1000})
	b.ReportAllocs()
	for b.Loop() {
		c.Add(r)
	}
}

// An object needs an exception if one of the rules fails without it, in whatever order the results come.
func TestExemptNeeds(t *testing.T) {
	for _, c := range []struct {
		without          []string
		needed, unneeded int
	}{
		{[]string{"fail", "skip"}, 1, 0},
		{[]string{"skip", "fail"}, 1, 0},
		{[]string{"fail", "pass"}, 1, 0},
		{[]string{"pass", "error"}, 1, 0},
		{[]string{"skip", "pass"}, 0, 1},
		{[]string{""}, 0, 0},
		{[]string{"", "fail"}, 1, 0},
	} {
		x := Exempt{Name: "e", From: func(string) bool { return true }}
		for _, w := range c.without {
			x.Add(Result{Policy: "p", Resource: Resource{Kind: "Pod", Name: "a"}, Properties: map[string]string{"exceptions": "e", "withoutException": w}})
		}
		if n, needed, unneeded := x.Count(); n != 1 || needed != c.needed || unneeded != c.unneeded {
			t.Errorf("%q: %d objects, %d need it, %d do not", c.without, n, needed, unneeded)
		}
	}
}
