package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/charts"

	"ephor.invalid/ephor/e2e/suite"
)

// object returns one object as JSON data.
func object(t testing.TB, args ...string) (map[string]any, error) {
	t.Helper()
	out, err := kubectl(t, "", append([]string{"get", "-o", "json"}, args...)...)
	if err != nil {
		return nil, err
	}
	var o map[string]any
	return o, json.Unmarshal([]byte(out), &o)
}

// at follows keys into JSON data; numbers index lists.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// isRefused waits until the API server denies the creation of the manifest with the text. With an empty text it waits until the creation is
// admitted.
func isRefused(t testing.TB, manifest, text string, flags ...string) {
	t.Helper()
	eventually(t, func() error {
		_, err := kubectl(t, manifest, append([]string{"create", "--dry-run=server", "-f", "-"}, flags...)...)
		switch got, ok := refused(err); {
		case text == "":
			return err
		case !ok:
			return fmt.Errorf("not refused: %v", err)
		case !strings.Contains(got, text):
			return fmt.Errorf("%q is not in %s", text, got)
		}
		return nil
	})
}

// The status reports that the policy is ready, the number of its rules, and the generated rules.
func TestStatus(t *testing.T) {
	applyPolicies(t, policyFile(t, `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: with-status}
spec:
  rules:
  - name: host-network
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate: {message: "no host network", pattern: {spec: {=(hostNetwork): false}}}
`))
	eventually(t, func() error {
		o, err := object(t, "clusterpolicy", "with-status")
		if err != nil {
			return err
		}
		s := at(o, "status")
		if got := fmt.Sprint(at(s, "conditions", 0, "type"), at(s, "conditions", 0, "status"), at(s, "conditions", 0, "reason"), at(s, "conditions", 0, "message"),
			at(s, "rulecount", "validate"), at(s, "autogen", "rules", 0, "name"), at(s, "autogen", "rules", 1, "name")); got != "ReadyTrueSucceededReady1autogen-host-networkautogen-cronjob-host-network" {
			return fmt.Errorf("status: %s", got)
		}
		return nil
	})
}

// A Policy matches objects of its own namespace only.
func TestNamespacedPolicy(t *testing.T) {
	cluster.Namespace(t, "own")
	must(t, strings.NewReplacer("kind: ClusterPolicy", "kind: Policy", "{name: require-team}", "{name: require-team, namespace: own}", ", namespaces: [default]", "").
		Replace(suite.RequireTeam), "create", "-f", "-")
	in := func(ns string) string {
		return strings.Replace(configMap("c"), "namespace: default", "namespace: "+ns, 1)
	}
	isRefused(t, in("own"), "resource ConfigMap/own/c was blocked due to the following policies \n\nrequire-team:\n  team: 'validation error: the label team is required.")
	isRefused(t, in("default"), "")
}

// A namespaceSelector matches the labels of a namespace that was just created.
func TestNamespaceSelector(t *testing.T) {
	applyPolicies(t, policyFile(t, strings.Replace(suite.RequireTeam, "namespaces: [default]", "namespaceSelector: {matchLabels: {tier: prod}}", 1)))
	isRefused(t, configMap("c"), "")
	for _, tier := range []string{"prod", "lab"} {
		name := "tier-" + tier
		must(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+name+", labels: {tier: "+tier+"}}\n", "create", "-f", "-")
		t.Cleanup(func() { cluster.Kubectl(context.Background(), nil, "delete", "namespace", name, "--wait=false") })
		_, err := kubectl(t, strings.Replace(configMap("c"), "namespace: default", "namespace: "+name, 1), "create", "--dry-run=server", "-f", "-")
		if _, ok := refused(err); ok != (tier == "prod") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Roles come from bindings of the user, of a group, and of a service account.
func TestClusterRoles(t *testing.T) {
	applyPolicies(t, policyFile(t, strings.NewReplacer("spec:\n  rules:", "spec:\n  background: false\n  rules:", "namespaces: [default]}", "namespaces: [default]}, clusterRoles: [team-lead]").
		Replace(suite.RequireTeam)))
	must(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: team-lead}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: team-member}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: team-lead}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: team-lead}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: jane}, {kind: Group, apiGroup: rbac.authorization.k8s.io, name: leads}, {kind: ServiceAccount, name: default, namespace: default}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: team-member}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: team-member}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: joe}]
`, "create", "-f", "-")
	t.Cleanup(func() {
		cluster.Kubectl(context.Background(), nil, "delete", "clusterrole,clusterrolebinding", "team-lead", "team-member")
	})
	for who, text := range map[string]string{
		"jane": "the label team is required", "system:serviceaccount:default:default": "the label team is required", "joe": "",
	} {
		isRefused(t, configMap("c"), text, "--as="+who)
	}
	isRefused(t, configMap("c"), "the label team is required", "--as=somebody", "--as-group=leads")
}

// A policy with match conditions gets its own webhook, and the API server calls it only if they are true.
func TestMatchConditions(t *testing.T) {
	applyPolicies(t, policyFile(t, strings.Replace(suite.RequireTeam, "spec:\n", `spec:
  webhookConfiguration:
    matchConditions: [{name: not-exempt, expression: "object.metadata.name != 'exempt'"}]
`, 1)))
	isRefused(t, configMap("c"), `admission webhook "validate.kyverno.svc-fail-finegrained-require-team" denied the request: `)
	isRefused(t, configMap("exempt"), "")
}

// Changes of the resource filters in the ConfigMap take effect without a restart.
func TestResourceFilters(t *testing.T) {
	applyPolicies(t, policyFile(t, suite.RequireTeam))
	isRefused(t, configMap("c"), "the label team is required")
	before, err := object(t, "configmap", charts.ConfigMap, "-n", charts.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	set := func(filters string) {
		patch, _ := json.Marshal(map[string]any{"data": map[string]any{"resourceFilters": filters}})
		must(t, "", "patch", "configmap", charts.ConfigMap, "-n", charts.Namespace, "--type=merge", "-p", string(patch))
	}
	was := at(before, "data", "resourceFilters").(string)
	set(was + " [ConfigMap,default,*]")
	isRefused(t, configMap("c"), "")
	set(was)
	isRefused(t, configMap("c"), "the label team is required")
}

// The controller reverts changes of its webhook configurations by other clients, and restores deleted configurations.
func TestDriftIsReverted(t *testing.T) {
	applyPolicies(t, policyFile(t, suite.RequireTeam))
	const name = "kyverno-resource-validating-webhook-cfg"
	intact := func() error {
		o, err := object(t, "validatingwebhookconfiguration", name)
		if err != nil {
			return err
		}
		if got := fmt.Sprint(at(o, "webhooks", 0, "failurePolicy"), at(o, "webhooks", 0, "timeoutSeconds"), at(o, "metadata", "labels")); got != "Fail10 map[webhook.kyverno.io/managed-by:kyverno]" {
			return errors.New(got)
		}
		return nil
	}
	eventually(t, intact)
	must(t, "", "patch", "validatingwebhookconfiguration", name, "--type=json", "-p", `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]`)
	eventually(t, intact)
	must(t, "", "label", "validatingwebhookconfiguration", name, "webhook.kyverno.io/managed-by-", "mine=yes")
	eventually(t, intact)
	must(t, "", "delete", "validatingwebhookconfiguration", name)
	eventually(t, intact)
	isRefused(t, configMap("c"), "the label team is required")
}

// The certificates are in Secrets with Kyverno's names. After they are deleted the controller creates new ones, serves with them and updates
// the CA bundles without a restart.
func TestCertificates(t *testing.T) {
	applyPolicies(t, policyFile(t, suite.RequireTeam))
	read := func() (ca string, err error) {
		for _, name := range []string{charts.AdmissionTLSSecret, charts.AdmissionCASecret} {
			o, err := object(t, "secret", name, "-n", charts.Namespace)
			if err != nil {
				return "", err
			}
			if got := fmt.Sprint(at(o, "type"), at(o, "metadata", "labels")); got != "kubernetes.io/tlsmap[cert.kyverno.io/managed-by:kyverno]" {
				return "", errors.New(got)
			}
			ca, _ = at(o, "data", "tls.crt").(string)
		}
		return ca, nil
	}
	old, err := read()
	if err != nil {
		t.Fatal(err)
	}
	must(t, "", "delete", "secret", charts.AdmissionTLSSecret, charts.AdmissionCASecret, "-n", charts.Namespace)
	eventually(t, func() error {
		ca, err := read()
		if err != nil {
			return err
		}
		o, err := object(t, "validatingwebhookconfiguration", "kyverno-resource-validating-webhook-cfg")
		if err != nil {
			return err
		}
		if bundle := at(o, "webhooks", 0, "clientConfig", "caBundle"); ca == old || bundle != ca {
			return errors.New("the bundle is not the new CA yet")
		}
		return nil
	})
	isRefused(t, configMap("c"), "the label team is required")
}

// A second replica serves at once. The first keeps the Lease until it stops.
func TestSecondReplica(t *testing.T) {
	applyPolicies(t, policyFile(t, suite.RequireTeam))
	isRefused(t, configMap("c"), "the label team is required")
	holder := func() string {
		o, _ := object(t, "lease", "kyverno", "-n", charts.Namespace)
		s, _ := at(o, "spec", "holderIdentity").(string)
		return s
	}
	was := holder()
	second, err := startReplica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if now := holder(); was == "" || now != was {
		t.Errorf("the lease went from %q to %q", was, now)
	}
	replica.Kill()
	replica = second
	isRefused(t, configMap("c"), "the label team is required")
	eventually(t, func() error {
		if now := holder(); now == was {
			return errors.New("the lease is still held by " + now)
		}
		return nil
	})
	// The new leader reconciles the webhook configurations.
	must(t, "", "delete", "validatingwebhookconfiguration", "kyverno-resource-validating-webhook-cfg")
	isRefused(t, configMap("c"), "the label team is required")
}

// Updates of the heartbeat Lease pass through our webhook, which sets the time.
func TestHeartbeat(t *testing.T) {
	eventually(t, func() error {
		o, err := object(t, "lease", "kyverno-health", "-n", charts.Namespace)
		if err != nil {
			return err
		}
		text, _ := at(o, "metadata", "annotations", "kyverno.io/last-request-time").(string)
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			return err
		}
		if got := fmt.Sprint(at(o, "metadata", "labels")); got != "map[app.kubernetes.io/name:kyverno]" {
			return errors.New(got)
		}
		return nil
	})
	// The webhook replaces a time that another client sets.
	must(t, "", "annotate", "--overwrite", "lease", "kyverno-health", "-n", charts.Namespace, "kyverno.io/last-request-time=2000-01-01T00:00:00Z")
	o, err := object(t, "lease", "kyverno-health", "-n", charts.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	if got := at(o, "metadata", "annotations", "kyverno.io/last-request-time"); got == "2000-01-01T00:00:00Z" {
		t.Error("the update did not pass through the webhook")
	}
}

// The rights of the manifests are sufficient: the API server denied no request of the controller.
func TestNothingIsForbidden(t *testing.T) {
	var forbidden []string
	for line := range bytes.Lines([]byte(replica.Tail(5000))) {
		if bytes.Contains(line, []byte("is forbidden: User")) {
			forbidden = append(forbidden, string(line))
		}
	}
	if len(forbidden) > 0 {
		t.Errorf("%d lines, such as %s", len(forbidden), forbidden[0])
	}
}
