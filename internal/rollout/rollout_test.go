package rollout

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/policy"
)

// program returns a policy with a rule that audits but enforces in lab, one that verifies images, and one that changes objects.
func program() *policy.Program {
	return &policy.Program{Name: "require-team", Settings: policy.Settings{Background: true}, Rules: []*policy.Rule{
		{Name: "team", Kind: "validate", Stage: policy.StageValidate, Effect: policy.Effect{Action: policy.ActionPlan{
			Overrides: []policy.ActionOverride{{Action: policy.Deny, Namespaces: []string{"lab"}}}}}},
		{Name: "signed", Kind: "verifyImages", Stage: policy.StageVerifyImages},
		{Name: "add", Kind: "mutate", Stage: policy.StageMutate},
	}}
}

// report returns a report of a Pod; results are rule=result.
func report(namespace, name string, results ...string) compliance.Report {
	r := compliance.Report{Namespace: namespace, Name: "uid-" + name}
	for _, text := range results {
		rule, result, _ := strings.Cut(text, "=")
		r.Results = append(r.Results, compliance.Result{
			Policy: "require-team", Rule: rule, Result: compliance.Status(result), Source: "kyverno", Message: "message of " + rule,
			Resource: compliance.Resource{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name, UID: "uid-" + name},
		})
	}
	return r
}

func plan(o Options, requests *Requests, reports ...compliance.Report) *Plan {
	o.Policy = "require-team"
	c := New(o)
	for _, r := range reports {
		c.Add(r)
	}
	if requests != nil {
		c.Count(*requests)
	}
	return c.Plan(context.Background())
}

func (n Namespace) words() string {
	text := fmt.Sprintf("%s[%s] %d/%d/%d/%d %.0f%% %t", n.Name, n.Action, n.Resources, n.Violating, n.Errors, n.Exempt, n.Rate, n.Safe)
	if n.Requests != nil {
		text += fmt.Sprintf(" %d/%d/%d/%d", n.Requests.Evaluated, n.Requests.Refused, n.Requests.WouldRefuse, n.Requests.Errors)
	}
	return text
}

func TestPlan(t *testing.T) {
	p := plan(Options{Program: program(), Keep: 1}, nil,
		report("shop", "a", "team=fail", "signed=fail", "add=fail"), report("shop", "b", "team=warn"), report("shop", "c", "team=pass"),
		report("shop", "d", "team=skip", "signed=skip"), report("lab", "e", "team=pass", "signed=error"), report("", "node", "team=pass"),
		report("shop", "f", "add=error"), report("shop", "g", "gone=fail"),
		compliance.Report{Results: []compliance.Result{{Policy: "other", Rule: "team", Result: compliance.Fail}, {Policy: "require-team", Rule: "team", Result: compliance.Fail, Source: "ValidatingAdmissionPolicy"}}},
	)
	var got []string
	for _, n := range p.Namespaces {
		got = append(got, n.words())
	}
	if s := strings.Join(got, "; "); s != "[Audit] 1/0/0/0 0% true; lab[Audit, Enforce] 1/0/1/0 0% false; shop[Audit] 3/2/0/1 67% false" {
		t.Error(s)
	}
	if len(p.Refused) != 1 || p.Omitted != 1 || p.Refused[0].Resource.Name != "a" || fmt.Sprint(p.Refused[0].Rules) != "[{team message of team} {signed message of signed}]" {
		t.Errorf("%+v, %d omitted", p.Refused, p.Omitted)
	}
	if p.Action != "Audit, Enforce" {
		t.Errorf("the policy's action is %q", p.Action)
	}
	if len(p.Lacks) != 2 || !strings.HasPrefix(p.Lacks[0].What, "1 more that would be refused") || !p.Lacks[1].Decisive || !strings.Contains(p.Lacks[1].What, "1 of their results: the policy has no such rules") {
		t.Errorf("%+v", p.Lacks)
	}
	if p := plan(Options{Namespaces: []string{"l*"}}, nil, report("shop", "a", "team=fail"), report("lab", "b", "team=pass"), report("", "c", "team=fail")); len(p.Namespaces) != 1 || p.Namespaces[0].Name != "lab" {
		t.Errorf("%+v", p.Namespaces)
	}
}

// A namespace whose labels cannot be read has no action, and the plan says why.
func TestPlanWithoutLabels(t *testing.T) {
	o := Options{Program: program(), NamespaceLabels: func(context.Context, string) (map[string]string, error) { return nil, errors.New("forbidden") }}
	o.Program.Rules[0].Action.Overrides[0] = policy.ActionOverride{Action: policy.Deny, Selector: func(map[string]string) bool { return true }}
	p := plan(o, nil, report("shop", "a", "team=pass"))
	if p.Namespaces[0].Action != "" || len(p.Lacks) != 1 || p.Lacks[0].What != "today's action in the namespace shop: forbidden" {
		t.Errorf("%+v", p)
	}
}

func sample(namespace, rule, result string, value float64) Sample {
	return Sample{Labels: map[string]string{"resource_namespace": namespace, "rule_name": rule, "rule_result": result}, Value: value}
}

// Denied requests have no report: their namespaces are listed because of the requests.
func TestRequests(t *testing.T) {
	r := &Requests{Window: time.Hour, Samples: []Sample{
		sample("shop", "team", "pass", 995.2), sample("shop", "team", "fail", 4.6), sample("lab", "team", "fail", 2), sample("lab", "team", "warn", 1),
		sample("lab", "signed", "fail", 1), sample("lab", "add", "fail", 7), sample("lab", "signed", "error", 1), sample("else", "", "pass", 3),
	}}
	p := plan(Options{Program: program()}, r, report("shop", "a", "team=pass"))
	var got []string
	for _, n := range p.Namespaces {
		got = append(got, n.words())
	}
	want := "else[Audit] 0/0/0/0 0% true 3/0/0/0; lab[Audit, Enforce] 0/0/0/0 0% false 5/3/1/1; shop[Audit] 1/0/0/0 0% true 1000/0/5/0"
	if s := strings.Join(got, "; "); s != want {
		t.Errorf("%s, want\n%s", s, want)
	}
}

// Recorded requests that violate the policy count for the object that manages theirs; rules that Enforce does not affect are left out.
func TestCallers(t *testing.T) {
	web := compliance.Resource{APIVersion: "apps/v1", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1", UID: "uid-web-1"}
	team := Violation{"team", "no team"}
	c := New(Options{Policy: "require-team", Program: program(), Namespaces: []string{"s*"}, Keep: 2})
	for i := range 7 {
		c.Violating(web, Meta{}, fmt.Sprintf("user-%d", i), []Violation{team, {"add", "a rule that changes objects"}, {"gone", "a rule that is not there"}})
	}
	c.Violating(web, Meta{}, "user-0", []Violation{team, {"signed", "not signed"}})
	c.Violating(compliance.Resource{Kind: "Pod", Namespace: "shop", Name: "x"}, Meta{}, "", []Violation{team})
	c.Violating(compliance.Resource{Kind: "Pod", Namespace: "lab", Name: "x"}, Meta{}, "", []Violation{team})
	c.Violating(web, Meta{}, "", []Violation{{"add", "a rule that changes objects"}})
	c.Count(Requests{Window: time.Hour, Lacks: []string{"something"}})
	p := c.Plan(t.Context())
	o := &objects{reads: map[string]int{}, metas: map[string]Meta{
		"shop/ReplicaSet/web-1": {Namespace: "shop", UID: "uid-web-1", Owners: owned("Deployment/web!")},
		"shop/Deployment/web":   {Namespace: "shop", UID: "uid-web", Labels: map[string]string{"team": "storefront"}},
	}}
	p.Own(t.Context(), &Owners{Read: o.read, Label: "team", Limit: 100})
	var got []string
	for _, x := range p.Callers {
		got = append(got, fmt.Sprintf("%d of %s/%s of %s by %v: %v", x.Requests, x.Owner.Kind, x.Owner.Name, x.Whose, x.Users, x.Rules))
	}
	want := "7 of Deployment/web of storefront by [user-0 user-1 user-2 user-3 user-4]: [{team no team}]; 1 of Deployment/web of storefront by [user-0]: [{team no team} {signed not signed}]"
	if s := strings.Join(got, "; "); s != want {
		t.Errorf("%s, want\n%s", s, want)
	}
	if len(p.Lacks) != 2 || !strings.HasPrefix(p.Lacks[0].What, "whose 1 more of the recorded requests") || p.Lacks[1].What != "something" {
		t.Errorf("%+v", p.Lacks)
	}
}

func TestQuery(t *testing.T) {
	series := `kyverno_policy_results_total{policy_name="p\"x",policy_namespace="shop",rule_execution_cause="admission_request",rule_result=~"pass|fail|warn|error",dry_run!="true"}`
	want := "sum by (resource_namespace, rule_name, rule_result) ((increase(" + series + "[3600s]) and " + series + " offset 3600s) or (max_over_time(" + series + "[3600s]) unless " + series + " offset 3600s))"
	if got := Query(`shop/p"x`, time.Hour); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if got := Query("p", time.Minute); !strings.Contains(got, `policy_name="p",policy_namespace="-"`) {
		t.Error(got)
	}
}

func TestEvaluate(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	clean, dirty := report("shop", "a", "team=pass"), report("shop", "b", "team=fail")
	refusing := &Requests{Window: day, Samples: []Sample{sample("shop", "team", "pass", 98), sample("shop", "team", "fail", 2)}}
	fine := &Requests{Window: day, Samples: []Sample{sample("shop", "team", "pass", 299), sample("shop", "team", "fail", 1)}}
	for _, c := range []struct {
		name     string
		requests *Requests
		facts    Facts
		reports  []compliance.Report
		want     string
	}{
		{"all in order", nil, Facts{}, []compliance.Report{clean}, "safe"},
		{"a violation", nil, Facts{}, []compliance.Report{clean, dirty},
			"unsafe: namespace shop: 1 of 2 resources would be refused; resources in order: 50.0% of 2, and the target is 100%; violation rate in every namespace: 50.0% (namespace shop), and the target is below 1%"},
		{"an error", nil, Facts{}, []compliance.Report{report("", "a", "team=error")},
			"unsafe: cluster-scoped resources: 1 resource could not be evaluated; resources in order: 0.0% of 1, and the target is 100%; resources that could not be evaluated: 1, and the target is 0"},
		{"nothing", nil, Facts{}, nil,
			"unknown: resources in order is not known; resources that could not be evaluated is not known; violation rate in every namespace is not known; missing is results: no report says anything about the policy"},
		{"not ready", nil, Facts{NotReady: "it is not"}, []compliance.Report{clean}, "unknown: missing is a policy that is in force: it is not"},
		{"not scanned", nil, Facts{NotScanned: []string{"background: false"}}, []compliance.Report{clean}, "unknown: missing is what exists already: background: false"},
		{"a kind that may not be read", fine, Facts{NotRead: []string{"v1/Secret: forbidden"}}, []compliance.Report{clean}, "unknown: missing is what the scan may not read: v1/Secret: forbidden"},
		{"written just now, which is reported", nil, Facts{Changed: now.Add(-time.Second)}, []compliance.Report{clean}, "safe"},
		{"not scanned, and requests tell", fine, Facts{NotScanned: []string{"background: false"}}, nil, "safe"},
		{"requests are refused", refusing, Facts{}, []compliance.Report{clean},
			"unsafe: namespace shop: 2.0% of 100 results of requests are violations; violation rate of requests: 2.0% of 100 in 24h0m0s, and the target is below 1%"},
		{"few requests are refused", fine, Facts{}, []compliance.Report{clean}, "safe"},
		{"no requests", &Requests{Window: day}, Facts{}, []compliance.Report{clean}, "safe"},
		{"new, which is an advice", nil, Facts{Created: now.Add(-day)}, []compliance.Report{clean}, "safe"},
		{"too new", nil, Facts{Created: now.Add(-day), MinAge: 2 * day}, []compliance.Report{clean}, "unsafe: time in the cluster: 24h0m0s, and the target is 48h0m0s"},
		{"old enough", nil, Facts{Created: now.Add(-2 * day), MinAge: 2 * day}, []compliance.Report{clean}, "safe"},
		{"an unknown age that is asked for", nil, Facts{MinAge: day}, []compliance.Report{clean}, "unknown: time in the cluster is not known"},
		{"only exempt ones", nil, Facts{}, []compliance.Report{report("shop", "a", "team=skip")},
			"unknown: resources in order is not known; resources that could not be evaluated is not known; violation rate in every namespace is not known; missing is results: no report says anything about the policy"},
	} {
		p := plan(Options{Program: program(), Keep: 10}, c.requests, c.reports...)
		c.facts.Now = now
		p.Evaluate(c.facts)
		got := string(p.Verdict)
		if len(p.Reasons) > 0 {
			got += ": " + strings.Join(p.Reasons, "; ")
		}
		if got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.name, got, c.want)
		}
	}
	p := plan(Options{Program: program()}, nil, clean)
	p.Evaluate(Facts{Now: now, Created: now.Add(-day)})
	if age := p.Targets[len(p.Targets)-1]; !age.Advice || *age.Met || age.Want != "1 week" {
		t.Errorf("%+v", age)
	}
	if last := p.Lacks[len(p.Lacks)-1]; !strings.Contains(last.What, "--metrics-url") || last.Decisive {
		t.Errorf("%+v", p.Lacks)
	}
}

// A missing result is reported: the policy may not match it, or it was not evaluated yet.
func TestCovered(t *testing.T) {
	p := plan(Options{}, nil, report("shop", "a", "team=pass"), report("shop", "b", "team=skip"))
	p.Evaluate(Facts{Existing: map[Kind]int{{"", "Pod"}: 5, {"apps", "Deployment"}: 0, {"apps", "StatefulSet"}: 2}})
	var got []string
	for _, l := range p.Lacks {
		if strings.HasPrefix(l.What, "results of") {
			got = append(got, l.What)
		}
	}
	if s := strings.Join(got, "; "); s != "results of 3 of 5 Pod: the policy does not match them, or they were not evaluated yet; results of 2 of 2 StatefulSet.apps: the policy does not match them, or they were not evaluated yet" {
		t.Error(s)
	}
}

// One violation in three hundred resources is below the guide's 1%, but it is still a resource that would be denied.
func TestOneViolationIsNotSafe(t *testing.T) {
	reports := []compliance.Report{report("shop", "bad", "team=fail")}
	for i := range 299 {
		reports = append(reports, report("shop", fmt.Sprint(i), "team=pass"))
	}
	p := plan(Options{}, nil, reports...)
	p.Evaluate(Facts{})
	if p.Verdict != Unsafe || p.Namespaces[0].Safe || !*p.Targets[2].Met {
		t.Errorf("%+v", p)
	}
}

// A resource that violates one rule, and for which another one ends in an error, counts once: as one that violates.
func TestViolationAndError(t *testing.T) {
	p := plan(Options{Keep: 10}, nil, report("shop", "a", "team=fail", "signed=error"), report("shop", "b", "signed=error"))
	p.Evaluate(Facts{})
	if n := p.Namespaces[0]; n.Resources != 2 || n.Violating != 1 || n.Errors != 1 || p.Targets[0].Have != "0.0% of 2" {
		t.Errorf("%+v, %s", n, p.Targets[0].Have)
	}
	o := &objects{reads: map[string]int{}, metas: map[string]Meta{
		"shop/ReplicaSet/old": {Namespace: "shop", UID: "uid-old", Annotations: map[string]string{revisionAnnotation: "1"}, Owners: owned("Deployment/web!")},
		"shop/Deployment/web": {Namespace: "shop", UID: "uid-web", Annotations: map[string]string{revisionAnnotation: "2"}},
	}}
	p = plan(Options{Keep: 10}, nil, report("shop", "old", "team=fail", "signed=error"), report("shop", "good", "team=pass"))
	p.Refused[0].Resource.Kind = "ReplicaSet"
	p.Own(t.Context(), &Owners{Read: o.read, Limit: 100})
	if p.Evaluate(Facts{}); p.Verdict != Safe {
		t.Errorf("an error of a superseded ReplicaSet counts: %+v", p.Reasons)
	}
}
