package webhookconf

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
)

// severalVersions is a cluster that serves one kind in two versions, and one kind in two groups.
const severalVersions = cluster + served("v1 events Event\nevents.k8s.io/v1 events Event\n")

// versionsOf holds, for each resource, the versions with their groups in which the API server serves the same stored objects.
var versionsOf = map[string][]string{
	"horizontalpodautoscalers": {"autoscaling/v1", "autoscaling/v2"},
	"events":                   {"/v1", "events.k8s.io/v1"},
	"services":                 {"/v1"},
}

// versioned returns selectors of kinds in the form group/version/Kind@operations; * stands for any.
func versioned(texts ...string) (out []policy.Target) {
	for _, text := range texts {
		kind, ops, _ := strings.Cut(text, "@")
		parts := strings.Split(kind, "/")
		t := kinds(parts[2] + "@" + ops)[0]
		t.Group, t.Version = parts[0], parts[1]
		out = append(out, t)
	}
	return out
}

// question is a call of a webhook, identified by its path, with the version that it receives.
type question struct{ path, version string }

// askedIn returns the webhooks that the API server calls for a request in a version. Each receives this version if its rules name it, or
// else one that they name.
func askedIn(t testing.TB, c Configurations, op policy.Operation, resource, sent, namespace string) (out []question) {
	t.Helper()
	in := append([]string{sent}, slices.DeleteFunc(slices.Clone(versionsOf[resource]), func(v string) bool { return v == sent })...)
	for _, o := range all(c) {
		if !IsResource(o.GetName()) {
			continue
		}
		for _, w := range webhooksOf(o) {
			for _, version := range in {
				group, v, _ := strings.Cut(version, "/")
				place := resource
				if group != "" {
					place += "." + group
				}
				r, selected := requestFor(op, place, v, namespace, "n", nil)
				if !slices.ContainsFunc(w.rules(), func(rule admissionv1.RuleWithOperations) bool {
					return (&rules.Matcher{Rule: rule, Attr: r.Attributes}).Matches()
				}) {
					continue
				}
				if slices.Contains(asked(t, c, r, selected), w.name()) {
					out = append(out, question{pathOf(w), version})
				}
				break
			}
		}
	}
	return out
}

func pathOf(w anyWebhook) string {
	if w.validating != nil {
		return *w.validating.ClientConfig.Service.Path
	}
	return *w.mutating.ClientConfig.Service.Path
}

// TestT4VersionsOfClusterPolicies: a cluster-wide policy that names a version receives that version, whatever namespaced policies name, and
// those receive the versions that they name.
func TestT4VersionsOfClusterPolicies(t *testing.T) {
	const own = "/validate/fail/finegrained/team/b"
	shared := func(version string) []question { return []question{{"/validate/fail", version}} }
	for _, c := range []struct {
		name, cluster, team string
		operation           policy.Operation
		resource, sent      string
		inTeam, inOther     []question
	}{
		{"all versions", "*/v1/HorizontalPodAutoscaler", "*/*/HorizontalPodAutoscaler", "CREATE", "horizontalpodautoscalers", "autoscaling/v2", shared("autoscaling/v1"), shared("autoscaling/v1")},
		{"a wildcard", "*/v1/HorizontalPodAutoscaler", "*/*/*", "CREATE", "horizontalpodautoscalers", "autoscaling/v2", shared("autoscaling/v1"), shared("autoscaling/v1")},
		{"other kinds of the wildcard", "*/v1/HorizontalPodAutoscaler", "*/*/*", "CREATE", "services", "/v1", shared("/v1"), nil},
		{"further operations", "*/v1/HorizontalPodAutoscaler@CREATE", "*/*/*@DELETE,CREATE", "DELETE", "horizontalpodautoscalers", "autoscaling/v2", shared("autoscaling/v2"), nil},
		{"another version", "*/v1/HorizontalPodAutoscaler", "*/v2/HorizontalPodAutoscaler", "CREATE", "horizontalpodautoscalers", "autoscaling/v2",
			append([]question{{own, "autoscaling/v2"}}, shared("autoscaling/v1")...), shared("autoscaling/v1")},
		{"another version, sent in the first", "*/v1/HorizontalPodAutoscaler", "*/v2/HorizontalPodAutoscaler", "CREATE", "horizontalpodautoscalers", "autoscaling/v1",
			append([]question{{own, "autoscaling/v2"}}, shared("autoscaling/v1")...), shared("autoscaling/v1")},
		{"another group", "/v1/Event", "*/*/Event", "CREATE", "events", "events.k8s.io/v1", shared("/v1"), shared("/v1")},
		{"the cluster-wide policy names no version", "*/*/HorizontalPodAutoscaler", "*/*/*", "CREATE", "horizontalpodautoscalers", "autoscaling/v2", shared("autoscaling/v2"), shared("autoscaling/v2")},
	} {
		input := in(
			program("a", func(p *policy.Program) { p.Rules[0].Targets = versioned(c.cluster) }),
			program("b", func(p *policy.Program) { p.Kind, p.Namespace, p.Rules[0].Targets = "Policy", "team", versioned(c.team) }))
		input.Settings.Webhook.NamespaceSelector = nil
		input.Resources = discovery.New(severalVersions, time.Now)
		got, _, _, err := Desired(input)
		if err != nil {
			t.Fatal(err)
		}
		for namespace, want := range map[string][]question{"team": c.inTeam, "other": c.inOther} {
			if have := askedIn(t, got, c.operation, c.resource, c.sent, namespace); !slices.Equal(have, want) {
				t.Errorf("%s: in %s asked %v, want %v\n%s", c.name, namespace, have, want, text(got, false))
			}
		}
	}
}

// TestT4VersionsDoNotMeet: for random policies that name versions, a cluster-wide policy receives the same requests as without the
// namespaced policies. No policy receives a request twice, and a namespaced policy receives every request in its version.
func TestT4VersionsDoNotMeet(t *testing.T) {
	g := rand.New(rand.NewPCG(7, 7))
	one := func(list ...string) string { return list[g.IntN(len(list))] }
	apart, met := 0, 0
	for range 100 {
		var programs []*policy.Program
		for i := range 2 + g.IntN(4) {
			namespaced := g.IntN(2) == 0
			selector := one("*/v1/HorizontalPodAutoscaler", "*/v2/HorizontalPodAutoscaler", "*/*/HorizontalPodAutoscaler", "/v1/Event", "events.k8s.io/v1/Event", "*/*/Event", "*/v1/Service")
			if namespaced && g.IntN(3) == 0 || g.IntN(20) == 0 {
				selector = "*/*/*"
			}
			selector += one("", "", "@CREATE", "@DELETE,UPDATE")
			programs = append(programs, program(fmt.Sprint("p", i), func(p *policy.Program) {
				if p.Rules[0].Targets = versioned(selector); namespaced {
					p.Kind, p.Namespace = "Policy", one("x", "y")
				}
			}))
		}
		desired := func(of func(*policy.Program) bool) Configurations {
			input := in(slices.DeleteFunc(slices.Clone(programs), func(p *policy.Program) bool { return !of(p) })...)
			input.Settings.Webhook.NamespaceSelector = nil
			input.Resources = discovery.New(severalVersions, time.Now)
			got, _, _, err := Desired(input)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		together := desired(func(*policy.Program) bool { return true })
		without := desired(func(p *policy.Program) bool { return p.Namespace == "" })
		for resource, versions := range versionsOf {
			for _, sent := range versions {
				for _, op := range []policy.Operation{policy.Create, policy.Update, policy.Delete} {
					for _, namespace := range []string{"x", "y", "z"} {
						got, alone := askedIn(t, together, op, resource, sent, namespace), askedIn(t, without, op, resource, sent, namespace)
						if namespace == "z" && !slices.Equal(got, alone) {
							t.Fatalf("%s %s in %s: asked %v, without namespaced policies %v\n%s%s", op, resource, sent, got, alone, text(together, false), text(without, false))
						}
						own := askedIn(t, desired(func(p *policy.Program) bool { return p.Namespace == namespace }), op, resource, sent, namespace)
						for _, p := range programs {
							before := alone
							if p.Namespace != "" { // a cluster-wide policy that names all versions may take conversions from it
								before = slices.DeleteFunc(slices.Clone(own), func(q question) bool { return q.version != sent })
							}
							now, then := reached(p, op, resource, namespace, got), reached(p, op, resource, namespace, before)
							if now > 1 || now < then || p.Namespace == "" && now != then {
								t.Fatalf("%s %s in %s in %s: %s %v is reached %d times, without the others %d times; asked %v, before %v\n%s", op, resource, sent, namespace, p.Key(),
									p.Rules[0].Targets, now, then, got, before, text(together, false))
							}
							met += now
						}
					}
				}
			}
		}
		if len(validatingNames(together, "wildcards."))+len(validatingNames(together, "-finegrained-")) > 0 {
			apart++
		}
	}
	t.Logf("%d of 100 have additional webhooks; policies were reached %d times", apart, met)
	if apart < 20 || met < 1000 {
		t.Error("the random policies rarely match: the test proves little")
	}
}

// reached returns the number of calls in which a policy matches the request.
func reached(p *policy.Program, op policy.Operation, resource, namespace string, questions []question) (n int) {
	if p.Namespace != "" && p.Namespace != namespace {
		return 0
	}
	kind := map[string]string{"horizontalpodautoscalers": "HorizontalPodAutoscaler", "events": "Event", "services": "Service"}[resource]
	t := p.Rules[0].Targets[0]
	if t.Kind != "*" && t.Kind != kind || t.Kind == "*" && kind == "Event" || len(t.Operations) > 0 && !slices.Contains(t.Operations, op) {
		return 0
	}
	for _, q := range questions {
		group, version, _ := strings.Cut(q.version, "/")
		serves := q.path == "/validate/fail" || q.path == "/validate/fail/finegrained/"+p.Key()
		if serves && (t.Group == "*" || t.Group == group) && (t.Version == "*" || t.Version == version) {
			n++
		}
	}
	return n
}

// validatingNames returns the names of validating webhooks that contain a text.
func validatingNames(c Configurations, part string) (out []string) {
	for _, v := range c.Validating {
		for _, w := range v.Webhooks {
			if strings.Contains(w.Name, part) {
				out = append(out, w.Name)
			}
		}
	}
	return out
}

// The API server sends Events of the core group to webhooks about those of events.k8s.io, and evaluates their conditions with the group of the
// request. No condition keeps them from a policy, whatever the policies of namespaces match.
func TestEventsOfBothGroups(t *testing.T) {
	inTeam := func(p *policy.Program) { p.Kind, p.Namespace = "Policy", "team" }
	event := func(change func(*policy.Program)) func(*policy.Program) {
		return func(p *policy.Program) {
			if p.Rules[0].Targets = []policy.Target{policy.KindTarget("events.k8s.io/v1", "Event")}; change != nil {
				change(p)
			}
		}
	}
	for _, c := range []struct {
		name        string
		programs    []*policy.Program
		here, there bool
	}{
		{"beside a wildcard of a namespace", []*policy.Program{program("a", event(nil)), program("b", inTeam, "*")}, true, true},
		{"of a namespace", []*policy.Program{program("a", nil, "ConfigMap"), program("b", event(inTeam))}, true, false},
		{"of a namespace beside a wildcard", []*policy.Program{program("a", nil, "ConfigMap"), program("b", event(inTeam)), program("c", func(p *policy.Program) { p.Kind, p.Namespace = "Policy", "else" }, "*")}, true, false},
	} {
		input := in(c.programs...)
		input.Settings.Webhook.NamespaceSelector = nil
		input.Resources = discovery.New(cluster+served("v1 events Event\nevents.k8s.io/v1 events Event\n"), time.Now)
		got, _, _, err := Desired(input)
		if err != nil {
			t.Fatal(err)
		}
		for namespace, want := range map[string]bool{"team": c.here, "other": c.there} {
			for _, group := range []string{"", ".events.k8s.io"} {
				r, _ := requestFor(policy.Create, "events"+group, "v1", namespace, "n", nil)
				w := webhooksOf(validatingOf(got, ResourceValidating))[0]
				sent := true
				for _, m := range conditionsOf(w) {
					matched := matcherOf(m.Name, m.Expression).Match(t.Context(), r, nil, nil)
					if sent = sent && matched.Matches; matched.Error != nil {
						t.Fatal(matched.Error)
					}
				}
				if sent != want {
					t.Errorf("%s: events%s in %s: sent %v, want %v\n%v", c.name, group, namespace, sent, want, conditionsOf(w))
				}
			}
		}
	}
}
