package preflight

import (
	"context"
	"errors"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/policy"
)

// without120 is what Kyverno 1.20 leaves in the cluster: its Deployment, an object of the hook that refuses upgrades, and policies.
const without120 = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: kyverno-admission-controller, namespace: kyverno, labels: {app.kubernetes.io/part-of: kyverno}}
spec: {template: {spec: {containers: [{name: kyverno, image: "mirror.example.com:5000/kyverno/kyverno:v1.20.0-rc.1@sha256:0"}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: kyverno-check, namespace: kyverno, labels: {app.kubernetes.io/part-of: kyverno}, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: kyverno-migrate, namespace: kyverno, labels: {app.kubernetes.io/part-of: kyverno}, annotations: {helm.sh/hook: post-upgrade}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "kyverno:check", labels: {app.kubernetes.io/part-of: kyverno}, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: denies}
spec: {rules: [{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {failureAction: Enforce, message: m, pattern: {metadata: {labels: {a: b}}}}}]}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: audits}
spec: {rules: [{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, validate: {failureAction: Audit, message: m, pattern: {metadata: {labels: {a: b}}}}}]}
---
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: changes, namespace: team}
spec: {rules: [{name: r, match: {any: [{resources: {kinds: [Pod]}}]}, mutate: {patchStrategicMerge: {metadata: {labels: {a: b}}}}}]}
---
apiVersion: kyverno.io/v2
kind: CleanupPolicy
metadata: {name: deletes, namespace: team}
spec: {schedule: "* * * * *", match: {any: [{resources: {kinds: [Pod]}}]}}
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: in-cel}
spec:
  validationActions: [Deny]
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "has(object.metadata.labels)"}]
`

// legacy returns a cluster of Kyverno 1.20 without the other faults of the recorded installation.
func legacy(t *testing.T, more string) *Cluster {
	t.Helper()
	r, c := kyverno(t, nil, "deployed")
	kept := r.objects[:0]
	for _, o := range r.objects {
		switch o.GetKind() {
		case "CustomResourceDefinition", "Secret", "ConfigMap":
			kept = append(kept, o)
		}
	}
	r.objects = kept
	r.read([]byte(without120 + more))
	return c
}

func legacyFindings(t *testing.T, c *Cluster) (lines, texts string) {
	t.Helper()
	for _, f := range Run(t.Context(), c).Findings {
		switch f.Code {
		case "policy-inert", "writes-denied", "helm-hook":
			lines += string(f.Severity) + " " + f.Code + " " + f.Object.String() + "\n"
			texts += f.Object.String() + ": " + f.Message + "\n  " + strings.Join(f.Commands, "\n  ") + "\n"
		case "not-checked":
			lines += "not-checked " + f.Object.String() + "\n"
		}
	}
	return lines, texts
}

const hooksOf120 = "note helm-hook ClusterRole/kyverno:check\nnote helm-hook Job/kyverno/kyverno-check\n"

// The policies that Kyverno 1.20 does not execute are found with what they would do, and with the objects that they concern.
func TestInertPolicies(t *testing.T) {
	c := legacy(t, "")
	c.Live = func(_ context.Context, programs []*policy.Program) (map[policy.ID]*Impact, error) {
		out := map[policy.ID]*Impact{}
		for _, p := range programs {
			i := &Impact{Objects: 3, Requests: 8}
			i.Violating.Add("team/Pod/a")
			i.Refused.Add("UPDATE team/Pod/a by jane")
			out[p.Identity()] = i
		}
		changes := &Impact{Objects: 40, Errors: 2}
		for range 12 {
			changes.Changed.Add("team/Pod/b")
		}
		out[policy.ID{Kind: "Policy", Namespace: "team", Name: "changes"}] = changes
		return out, nil
	}
	const want = "stops policy-inert CleanupPolicy/team/deletes\nstops policy-inert ClusterPolicy/denies\nstops policy-inert Policy/team/changes\n" + hooksOf120 +
		"note policy-inert ClusterPolicy/audits\nnote writes-denied Deployment/kyverno/kyverno-admission-controller\n"
	lines, texts := legacyFindings(t, c)
	if lines != want {
		t.Errorf("found\n%swant\n%s", lines, want)
	}
	for _, part := range []string{
		"ClusterPolicy/denies: Kyverno stores it without executing it. Ephor would execute it: it would deny requests that violate it. Of 3 objects that it selects, 1 violate it: team/Pod/a. Of 8 recorded requests that it selects, 1 violate it: UPDATE team/Pod/a by jane.\n  ephor rollout --audit-first",
		"it would change objects of requests. Of 40 objects that it selects, 0 violate it; it would change 12: " + strings.TrimSuffix(strings.Repeat("team/Pod/b, ", 10), ", ") + " and 2 more; 2 cannot be evaluated.",
		"it would delete objects on its schedule", "ephor cleanup preview CleanupPolicy/deletes -n team", "kubectl delete job kyverno-check -n kyverno", "kubectl delete clusterrole kyverno:check\n",
	} {
		if !strings.Contains(texts, part) {
			t.Errorf("not said: %s\nin\n%s", part, texts)
		}
	}
}

// A policy that audits first is a note, and the impact that could not be found is a finding.
func TestInertPoliciesThatAuditFirst(t *testing.T) {
	c := legacy(t, "")
	for _, o := range c.Reader.(*recorded).objects {
		if o.GetKind() == "ConfigMap" {
			o.Object["data"] = map[string]any{"auditFirst": "ClusterPolicy/denies,Policy/team/changes"}
		}
	}
	c.Live = func(context.Context, []*policy.Program) (map[policy.ID]*Impact, error) {
		return nil, errors.New("no right")
	}
	lines, texts := legacyFindings(t, c)
	const want = "stops policy-inert CleanupPolicy/team/deletes\nnot-checked existing objects\n" + hooksOf120 +
		"note policy-inert ClusterPolicy/audits\nnote policy-inert ClusterPolicy/denies\nnote policy-inert Policy/team/changes\nnote writes-denied Deployment/kyverno/kyverno-admission-controller\n"
	if lines != want {
		t.Errorf("found\n%swant\n%s", lines, want)
	}
	for _, part := range []string{"ephor rollout team/changes --as-written   # then it would change objects of requests", "What it says about existing objects is not known."} {
		if !strings.Contains(texts, part) {
			t.Errorf("not said: %s\nin\n%s", part, texts)
		}
	}
}

// In the builds of 1.20 that still execute the policies there are webhooks for them. Other versions of Kyverno, and Ephor, deny no writes.
func TestExecutedPolicies(t *testing.T) {
	const webhooks = `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: kyverno-resource-validating-webhook-cfg, labels: {webhook.kyverno.io/managed-by: kyverno}}
webhooks: [{name: validate.kyverno.svc-fail, failurePolicy: Ignore, clientConfig: {service: {namespace: kyverno, name: kyverno-svc, path: /validate/fail}}}]
`
	if lines, _ := legacyFindings(t, legacy(t, webhooks)); lines != hooksOf120+"note writes-denied Deployment/kyverno/kyverno-admission-controller\n" {
		t.Errorf("found\n%s", lines)
	}
	for installed, found := range map[string]bool{
		"kyverno/kyverno:v1.19.1 kyverno-3.10.0": false, "kyverno/kyverno:v1.21.0 kyverno-3.9.0": true, "ephor:1.25.0 kyverno-3.10.0": false,
		"kyverno/kyverno:latest kyverno-3.9.1": false, "kyverno@sha256:0 kyverno-3.10.0-rc.1": true, "ephor@sha256:0 ephor-3.10.0": false,
		"mirror/kyverno-fips:v1.20.1 kyverno-3.10.0": true, "mirror/kyverno-fips:v1.19.1 kyverno-3.9.0": false,
	} {
		image, chart, _ := strings.Cut(installed, " ")
		c := legacy(t, "")
		for _, o := range c.Reader.(*recorded).objects {
			if o.GetKind() == "Deployment" {
				o.SetLabels(map[string]string{"app.kubernetes.io/part-of": "kyverno", "helm.sh/chart": chart})
				o.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{
					map[string]any{"name": "proxy", "image": "istio/proxyv2:1.22.0"}, map[string]any{"name": "kyverno", "image": image},
				}}}}
			}
		}
		if lines, _ := legacyFindings(t, c); strings.Contains(lines, "policy-inert") != found {
			t.Errorf("%s: found\n%s", installed, lines)
		}
	}
}
