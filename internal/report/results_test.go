package report

import (
	"strings"
	"testing"
	"time"

	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// The fields of a stored result, and their order.
func TestResults(t *testing.T) {
	scored := program("", "b", policy.Settings{Scored: true, Background: true, Category: "Sample", Severity: "high"})
	local := program("ns", "a", policy.Settings{})
	long := result(scored, policy.StatusError, strings.Repeat("é", value.MaxMessage))
	entries := Entries(outcome(pod("ns", "p"), long, result(scored, policy.StatusPass, "fine"), result(local, policy.StatusFail, "bad")), Options{})
	got := Results(entries, 7)
	if sum := Summarize(got); sum != (policyreport.Summary{Pass: 1, Warn: 1, Error: 1}) {
		t.Errorf("summary %+v", sum)
	}
	if len(got) != 3 || got[0].Policy != "b" || got[2].Policy != "ns/a" {
		t.Fatalf("order %+v", got)
	}
	if m := got[0].Message; len(m) > value.MaxMessage+len("…") || !strings.HasSuffix(m, "é…") {
		t.Errorf("a message of %d bytes ends with %q", len(m), m[len(m)-6:])
	}
	pass, warn := got[1], got[2]
	if pass.Source != "kyverno" || pass.Rule != "r" || pass.Message != "fine" || pass.Result != "pass" || !pass.Scored || pass.Category != "Sample" ||
		pass.Severity != "high" || pass.Properties["process"] != "background scan" || pass.Timestamp.Seconds != 7 || len(pass.Resources) != 0 {
		t.Errorf("%+v", pass)
	}
	if warn.Result != "warn" || warn.Scored || warn.Properties["process"] != "admission review" {
		t.Errorf("%+v", warn)
	}
}

// Results of a CEL policy name their part of the policy. All of them belong to its one rule, so the next evaluation replaces them.
func TestResultsOfParts(t *testing.T) {
	p := program("", "a", policy.Settings{})
	p.Names.Source, p.Rules = "KyvernoValidatingPolicy", []*policy.Rule{{}}
	results := func(seconds int64, status policy.Status, part string) []policyreport.Result {
		r := result(p, status, part)
		r.Part = part
		return Results(Entries(outcome(pod("ns", "p"), r), Options{}), seconds)
	}
	failed, exempt := results(7, policy.StatusFail, ""), results(8, policy.StatusSkip, "exception")
	if failed[0].Rule != "" || exempt[0].Rule != "exception" {
		t.Errorf("the rules are called %q and %q", failed[0].Rule, exempt[0].Rule)
	}
	if want := RuleIn(p, p.Rules[0]); RuleOf(&failed[0]) != want || RuleOf(&exempt[0]) != want {
		t.Errorf("the results are of %v and %v, want %v", RuleOf(&failed[0]), RuleOf(&exempt[0]), want)
	}
	if got := Together(failed, exempt); len(got) != 1 || got[0].Rule != "exception" {
		t.Errorf("together %+v", got)
	}
	several := []policyreport.Result{{Source: "kyverno", Policy: "a", Rule: "one"}, {Source: "kyverno", Policy: "a", Rule: "two"}}
	if got := Together(several[:1], several[1:]); len(got) != 2 {
		t.Errorf("rules of a classic policy: %+v", got)
	}
}

func TestAllowed(t *testing.T) {
	p := program("", "a", policy.Settings{Scored: true})
	entries := func() []Entry {
		return Entries(outcome(pod("ns", "p"), result(p, policy.StatusPass, ""), result(p, policy.StatusFail, "")), Options{})
	}
	if got := Allowed(nil).Filter(entries()); len(got) != 2 {
		t.Errorf("%d entries without a choice", len(got))
	}
	if got := (Allowed{policy.StatusFail: true}).Filter(entries()); len(got) != 1 || got[0].Status != policy.StatusFail {
		t.Errorf("%+v", got)
	}
}

// Only work marks its results about targets; a property of a rule does not.
func TestResultsAboutTargets(t *testing.T) {
	p := program("", "a", policy.Settings{})
	claimed := result(p, policy.StatusPass, "fine")
	claimed.Properties = map[string]string{TargetProperty: "true", "k": "v"}
	target := result(p, policy.StatusPass, "fine")
	target.OfTarget = true
	for _, c := range []struct {
		result policy.Result
		want   bool
	}{{claimed, false}, {target, true}} {
		got := Results(Entries(outcome(pod("ns", "p"), c.result), Options{}), 7)
		if at := RuleOf(&got[0]); at.Target != c.want || at.Policy != "a" {
			t.Errorf("%v gives a result of %+v", c.result.Properties, at)
		}
	}
	if claimed.Properties[TargetProperty] != "true" {
		t.Error("the properties of the result were changed")
	}
}

// A result of an exempt object names the exceptions, and says why they exist, who answers for them and when they end.
func TestResultsOfExceptions(t *testing.T) {
	r := result(program("", "a", policy.Settings{}), policy.StatusSkip, "")
	end := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	r.Exceptions = []*policy.Exception{
		{Namespace: "n", Name: "one", Reason: "the vendor", Owner: "team-a", Expires: end, EndsSoon: true},
		{Namespace: "n", Name: "two", Owner: "team-b"},
	}
	got := Results(Entries(outcome(pod("ns", "p"), r), Options{}), 7)[0].Properties
	for key, want := range map[string]string{
		policy.PropertyExceptions: "one,two", "exceptionReason": "the vendor", "exceptionOwner": "team-a; team-b", "exceptionEnds": "2026-01-31T12:00:00Z", "exceptionEndsSoon": "true",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
}
