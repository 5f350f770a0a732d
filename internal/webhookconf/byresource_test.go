package webhookconf

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"ephor.invalid/ephor/internal/coverage"
	"ephor.invalid/ephor/internal/policy"
)

// Selectors by resource become webhook rules without changes, whether or not the API server serves the resource.
func TestRulesByResource(t *testing.T) {
	target := func(group, version, resource string, more ...func(*policy.Target)) policy.Target {
		out := policy.Target{Group: group, Version: version}
		out.Resource, out.Subresource, _ = strings.Cut(resource, "/")
		for _, f := range more {
			f(&out)
		}
		return out
	}
	scope := func(s policy.ResourceScope) func(*policy.Target) { return func(t *policy.Target) { t.Scope = s } }
	on := func(o ...policy.Operation) func(*policy.Target) { return func(t *policy.Target) { t.Operations = o } }
	for _, c := range []struct {
		name      string
		namespace string
		targets   []policy.Target
		excludes  []policy.Target
		want      string
	}{
		{"pods", "", []policy.Target{target("", "v1", "pods")}, nil, "/v1 pods * CONNECT,CREATE,DELETE,UPDATE"},
		{"subresources", "", []policy.Target{target("", "v1", "pods/exec"), target("apps", "*", "*/scale")}, nil,
			"/v1 pods/exec * CONNECT,CREATE,DELETE,UPDATE; apps/* */scale * CONNECT,CREATE,DELETE,UPDATE"},
		{"not served", "", []policy.Target{target("x.io", "v9", "things", on(policy.Create))}, nil, "x.io/v9 things * CREATE"},
		{"everything", "", []policy.Target{target("*", "*", "*/*"), target("", "v1", "pods")}, nil, "*/* */* * CONNECT,CREATE,DELETE,UPDATE"},
		{"scope", "", []policy.Target{target("*", "*", "*", scope(policy.ClusterScope))}, nil, "*/* * Cluster CONNECT,CREATE,DELETE,UPDATE"},
		{"of a namespace", "ns", []policy.Target{target("", "v1", "*", on(policy.Update)), target("", "v1", "nodes", scope(policy.ClusterScope))}, nil,
			"/v1 * Namespaced UPDATE"},
		{"excluded", "", []policy.Target{target("", "v1", "pods"), target("", "v1", "secrets")}, []policy.Target{target("*", "*", "secrets", on(policy.Delete, policy.Connect))},
			"/v1 pods * CONNECT,CREATE,DELETE,UPDATE; /v1 secrets * CREATE,UPDATE"},
		{"excluded by name", "", []policy.Target{target("", "v1", "pods")}, []policy.Target{target("*", "*", "*", func(t *policy.Target) { t.Names = []string{"x"} })},
			"/v1 pods * CONNECT,CREATE,DELETE,UPDATE"},
	} {
		p := program("p", func(p *policy.Program) { p.Namespace = c.namespace })
		p.Rules[0].Targets, p.Rules[0].Excludes = c.targets, c.excludes
		got, ready, unknown, err := Desired(in(p))
		if err != nil || unknown > 0 || ready[ProgramKey(p)] != nil {
			t.Errorf("%s: %v, unknown %v, ready %v", c.name, err, unknown, ready)
			continue
		}
		var texts []string
		for _, w := range validatingOf(got, ResourceValidating).Webhooks {
			for _, r := range w.Rules {
				texts = append(texts, ruleText(r))
			}
		}
		if text := strings.Join(texts, "; "); text != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, text, c.want)
		}
	}
}

func ruleText(r admissionv1.RuleWithOperations) string {
	var operations []string
	for _, o := range r.Operations {
		operations = append(operations, string(o))
	}
	return strings.Join(r.APIGroups, ",") + "/" + strings.Join(r.APIVersions, ",") + " " + strings.Join(r.Resources, ",") + " " +
		string(*r.Scope) + " " + strings.Join(operations, ",")
}

// A webhook covers a reserved resource that a policy names in all groups, although another policy has a wildcard.
func TestReservedByResource(t *testing.T) {
	var n namedResources
	n.add(coverage.Resource{Group: "*", Name: "leases", Subresource: "", Authored: true})
	n.add(coverage.Resource{Group: "", Name: "pods", Subresource: "*", Authored: true})
	for _, p := range []coverage.Resource{{Group: "coordination.k8s.io", Name: "leases"}, {Name: "pods", Subresource: "binding"}} {
		if !n.resources[p] {
			t.Errorf("%v is not named", p)
		}
	}
}
