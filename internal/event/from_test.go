package event

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

func rule(name string, stage policy.Stage) *policy.Rule {
	return &policy.Rule{Name: name, Stage: stage}
}

// Each request gives the events of the policy language, in this layout.
func TestFrom(t *testing.T) {
	cluster := &policy.Program{APIVersion: "kyverno.io/v1", Kind: "ClusterPolicy", Name: "labels", UID: "u1"}
	own := &policy.Program{APIVersion: "kyverno.io/v1", Kind: "Policy", Namespace: "team", Name: "tags", UID: "u2"}
	result := func(p *policy.Program, r *policy.Rule, s policy.Status, msg string, exceptions ...*policy.Exception) policy.Result {
		return policy.Result{Program: p, Rule: r, Yield: policy.Yield{Status: s, Message: msg, Exceptions: exceptions}}
	}
	exempts := func(namespace, name string) *policy.Exception {
		return &policy.Exception{APIVersion: "kyverno.io/v2", Kind: "PolicyException", Namespace: namespace, Name: name, UID: "of " + name}
	}
	a, b, nameless := rule("a", policy.StageValidate), rule("b", policy.StageValidate), rule("", policy.StageValidate)
	change := rule("m", policy.StageMutate)
	vault := &world.Attestor{Key: &world.KeyAttestor{KMS: "hashivault://k"}}
	pod := &policy.Request{Review: policy.Review{
		GVK: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: "team", Name: "web",
		Object: value.Of(map[string]any{"metadata": map[string]any{"name": "web", "uid": "u3"}}),
	}}
	namespace := &policy.Request{Review: policy.Review{GVK: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Namespace: "x", Name: "x", Object: value.Of(map[string]any{})}}
	generated := &policy.Request{Review: policy.Review{GVK: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}, Namespace: "team", Object: value.Of(map[string]any{})}}
	for _, c := range []struct {
		name    string
		req     *policy.Request
		results []policy.Result
		blocked bool
		want    []string // reason, action, regarding, related, note
		scan    bool
	}{
		{"nothing", pod, nil, false, nil, false},
		{"a failure beside a pass", pod, []policy.Result{result(cluster, a, policy.StatusFail, "no label"), result(cluster, b, policy.StatusPass, "fine")}, false, []string{
			"PolicyViolation|Resource Passed|ClusterPolicy labels u1|Pod team/web u3|Pod team/web: [a] fail; no label",
			"PolicyViolation|Resource Passed|Pod team/web u3||policy labels/a fail: no label",
			"PolicyViolation|Resource Passed|Pod team/web u3||policy labels/b pass: fine",
		}, false},
		{"the resource's events of a scan are about failed rules", pod, []policy.Result{
			result(cluster, a, policy.StatusFail, "no label"), result(cluster, b, policy.StatusPass, "fine"), result(cluster, nameless, policy.StatusError, "?"),
		}, false, []string{
			"PolicyViolation|Resource Passed|ClusterPolicy labels u1|Pod team/web u3|Pod team/web: [a] fail; no label",
			"PolicyViolation|Resource Passed|ClusterPolicy labels u1|Pod team/web u3|Pod team/web: error; ?",
			"PolicyViolation|Resource Passed|Pod team/web u3||policy labels/a fail: no label",
			"PolicyViolation|Resource Passed|Pod team/web u3||policy labels/ error: ?",
		}, true},
		{"refused: only the policies have events", pod, []policy.Result{result(own, a, policy.StatusFail, "no"), result(cluster, b, policy.StatusError, "")}, true, []string{
			"PolicyViolation|Resource Blocked|Policy team/tags u2|Pod team/web u3|Pod team/web: [a] fail (blocked); no",
			"PolicyViolation|Resource Blocked|ClusterPolicy labels u1|Pod team/web u3|Pod team/web: [b] error (blocked)",
		}, false},
		{"refused: results of other policies have no event", pod, []policy.Result{
			result(own, a, policy.StatusFail, "no"), result(cluster, a, policy.StatusPass, ""),
			result(&policy.Program{APIVersion: "kyverno.io/v1", Kind: "ClusterPolicy", Name: "excepted"}, a, policy.StatusSkip, "", exempts("team", "x")),
		}, true, []string{
			"PolicyViolation|Resource Blocked|Policy team/tags u2|Pod team/web u3|Pod team/web: [a] fail (blocked); no",
		}, false},
		{"two policies, each with its own", pod, []policy.Result{
			result(cluster, a, policy.StatusPass, ""), result(own, a, policy.StatusFail, "no"), result(cluster, b, policy.StatusPass, ""),
		}, false, []string{
			"PolicyApplied|Resource Passed|ClusterPolicy labels u1|Pod team/web u3|Pod team/web: pass",
			"PolicyViolation|Resource Passed|Policy team/tags u2|Pod team/web u3|Pod team/web: [a] fail; no",
			"PolicyViolation|Resource Passed|Pod team/web u3||policy team/tags/a fail: no",
		}, false},
		{"exceptions", pod, []policy.Result{result(cluster, a, policy.StatusSkip, "", exempts("team", "x"), exempts("ops", "y")), result(cluster, b, policy.StatusPass, "")}, false, []string{
			"PolicySkipped|Resource Passed|ClusterPolicy labels u1|Pod team/web u3|resource Pod/team/web was skipped from rule a due to policy exceptions team/x, ops/y",
			"PolicySkipped|Resource Passed|PolicyException team/x kyverno.io/v2 of x|Pod team/web u3|resource Pod/team/web was skipped from policy rule labels/a",
			"PolicySkipped|Resource Passed|PolicyException ops/y kyverno.io/v2 of y|Pod team/web u3|resource Pod/team/web was skipped from policy rule labels/a",
		}, false},
		{"exceptions of another group, from a policy whose result has a part", pod, []policy.Result{
			{Program: cluster, Rule: nameless, Yield: policy.Yield{Status: policy.StatusSkip, Part: "exception", Exceptions: []*policy.Exception{
				{APIVersion: "policies.kyverno.io/v1beta1", Kind: "PolicyException", Namespace: "team", Name: "x", UID: "of x"},
			}}},
		}, false, []string{
			"PolicySkipped|Resource Passed|ClusterPolicy labels u1|Pod team/web u3|resource Pod/team/web was skipped from rule exception due to policy exceptions team/x",
			"PolicySkipped|Resource Passed|PolicyException team/x policies.kyverno.io/v1beta1 of x|Pod team/web u3|resource Pod/team/web was skipped from policy rule labels/exception",
		}, false},
		{"unmet preconditions have no event", pod, []policy.Result{result(cluster, a, policy.StatusSkip, "")}, false, nil, false},
		{"a mutation", pod, []policy.Result{result(cluster, change, policy.StatusPass, ""), result(cluster, change, policy.StatusSkip, "")}, false, []string{
			"PolicyApplied|Resource Mutated|ClusterPolicy labels u1|Pod team/web u3|Pod team/web is successfully mutated",
		}, false},
		{"attestors that were asked, by the digest of the image", pod, []policy.Result{{Program: cluster, Rule: a, Yield: policy.Yield{Status: policy.StatusPass, Signatures: &policy.Signatures{Attested: []policy.Attested{
			{Image: "app:1@sha256:d", Path: ".attestors[0].entries[0].keys", Attestor: vault, Status: policy.StatusPass},
			{Image: "app:1@sha256:d", Path: ".attestations[0]", Type: "sbom", Attestor: &world.Attestor{Keyless: &world.KeylessAttestor{}}, Status: policy.StatusPass},
		}}}}}, false, []string{
			"PolicyApplied|Resource Passed|ClusterPolicy labels u1|Pod team/web u3|Pod team/web: pass; app:1@sha256:d is signed by the key hashivault://k (.attestors[0].entries[0].keys); " +
				"app:1@sha256:d has a statement sbom by anyone with a certificate of the authority (.attestations[0])",
		}, false},
		{"attestors that did not sign, or that could not be asked", pod, []policy.Result{{Program: cluster, Rule: a, Yield: policy.Yield{Status: policy.StatusFail, Message: "no", Signatures: &policy.Signatures{Attested: []policy.Attested{
			{Image: "app@sha256:d", Path: "attestors.team", Attestor: vault, Status: policy.StatusFail}, {Image: "app@sha256:d", Path: "attestors.team", Type: "sbom", Attestor: vault, Status: policy.StatusFail},
			{Image: "app@sha256:d", Attestor: vault, Status: policy.StatusError}, {Image: "app@sha256:d", Type: "sbom", Attestor: vault, Status: policy.StatusError}, {Image: "app@sha256:d", Attestor: vault},
		}}}}}, true, []string{
			"PolicyViolation|Resource Blocked|ClusterPolicy labels u1|Pod team/web u3|Pod team/web: [a] fail (blocked); no; app@sha256:d is not signed by the key hashivault://k (attestors.team); " +
				"app@sha256:d has no statement sbom by the key hashivault://k (attestors.team); app@sha256:d may be signed by the key hashivault://k; " +
				"app@sha256:d may have a statement sbom by the key hashivault://k; and 1 more",
		}, false},
		{"a Namespace lies in none", namespace, []policy.Result{result(cluster, nameless, policy.StatusFail, "no")}, false, []string{
			"PolicyViolation|Resource Passed|ClusterPolicy labels u1|Namespace x |Namespace x: fail; no",
			"PolicyViolation|Resource Passed|Namespace x ||policy labels/ fail: no",
		}, false},
		{"an object without a name yet", generated, []policy.Result{result(cluster, a, policy.StatusFail, "no")}, false, nil, false},
		{"a mutation of an object without a name yet", generated, []policy.Result{result(cluster, change, policy.StatusPass, "")}, false, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			controller := AdmissionController
			if c.scan {
				controller = ScanController
			}
			for _, e := range From(c.req, c.results, Context{
				Controller: controller, Blocked: c.blocked,
			}) {
				related := ""
				if e.Related != (Reference{}) {
					related = title(e.Related) + " " + e.Related.UID
				}
				if e.Regarding.Kind == "PolicyException" {
					e.Regarding.UID = e.Regarding.APIVersion + " " + e.Regarding.UID
				}
				if e.Controller != controller {
					t.Errorf("reported by %q", e.Controller)
				}
				got = append(got, fmt.Sprintf("%s|%s|%s %s|%s|%s", e.Reason, e.Action, title(e.Regarding), e.Regarding.UID, related, e.Note))
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}
