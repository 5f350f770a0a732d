package decisions

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// requesting are the rights of a tenant, of an approver, and of what applies in GitOps: the application controller of Argo CD may approve, the
// kustomize-controller of Flux does so as the account that a Kustomization impersonates.
const requesting = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-exceptions}
rules:
- {apiGroups: [kyverno.io, policies.kyverno.io], resources: [policyexceptions, policyexceptions/status], verbs: [get, list, create, update, patch, delete]}
- {apiGroups: [""], resources: [configmaps], verbs: [create]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: e2e-tenant, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-approver}
rules:
- {apiGroups: [kyverno.io, policies.kyverno.io], resources: [policyexceptions], verbs: [approve]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: e2e-exceptions}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: e2e-exceptions}
subjects:
- {kind: User, name: tenant}
- {kind: ServiceAccount, name: e2e-tenant, namespace: default}
- {kind: User, name: jane}
- {kind: User, name: "system:serviceaccount:argocd:argocd-application-controller"}
- {kind: User, name: "system:serviceaccount:apps:flux-applier"}
- {kind: User, name: "system:serviceaccount:apps:flux-tenant"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: e2e-approver}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: e2e-approver}
subjects:
- {kind: User, name: jane}
- {kind: User, name: "system:serviceaccount:argocd:argocd-application-controller"}
- {kind: User, name: "system:serviceaccount:apps:flux-applier"}
`

// exceptionFor returns an exception from RequireTeam for ConfigMaps of a name.
func exceptionFor(name, object string) string {
	return fmt.Sprintf(`{apiVersion: kyverno.io/v2, kind: PolicyException, metadata: {name: %s, namespace: default}, spec: {exceptions: [{policyName: require-team, ruleNames: [team]}],
		match: {any: [{resources: {kinds: [ConfigMap], namespaces: [default], names: [%s]}}]}}}`, name, object)
}

var pendingMetric = regexp.MustCompile(`(?m)^ephor_policy_exceptions\{.*state="pending".*$`)

var namedDecision = regexp.MustCompile(`decision ([0-9a-f-]{36}) \(ephor why `)

// The way from a refusal to an exception in force: the refusal names its decision, which becomes a request; only who has the verb approve sets
// it in force. Copied and replayed approvals, and those of changed or restored exceptions, are none. In GitOps the identity that applies approves.
func TestFromRefusalToApproval(t *testing.T) {
	records := filepath.Join(t.TempDir(), "decisions.jsonl")
	replica := cluster.Start(t, devcluster.Admission, "--decisions="+records, "--enablePolicyException", "--exceptionNamespace=*", "--exceptionApproval")
	suite.Until(t, "policies are reviewed by this replica", func() error {
		_, err := cluster.Try(t, suite.RequireTeam, "apply", "--dry-run=server", "-f", "-")
		return err
	})
	cluster.Apply(t, suite.RequireTeam+"---"+requesting)
	suite.Until(t, "the policy is enforced", func() error { return cluster.Enforced(t.Context()) })
	t.Cleanup(func() {
		_, _ = cluster.Try(t, "", "delete", "policyexceptions.kyverno.io", "-n", "default", "--all")
	})
	create := func(name string) error {
		_, err := cluster.Try(t, "", "create", "configmap", name, "-n", "default", "--dry-run=server")
		return err
	}
	exempt := func(name string, want bool) {
		t.Helper()
		suite.Until(t, fmt.Sprintf("%s is exempt: %v", name, want), func() error {
			if err := create(name); (err == nil) != want {
				return fmt.Errorf("the answer is %w", errors.Join(err, errors.New("not as expected")))
			}
			return nil
		})
	}
	event := func(name string) {
		t.Helper()
		suite.Until(t, "an event says that "+name+" is pending", func() error {
			if out := cluster.Must(t, "", "get", "events", "-A", "--field-selector", "reason=ExceptionPending,involvedObject.name="+name, "-o", "name"); out == "" {
				return errors.New("no event")
			}
			return nil
		})
	}

	// A request from the refusal, in one command of the tenant. It is where approvers look, and has no effect.
	tenant, err := cluster.ServiceAccountKubeconfig(t.Context(), "default", "e2e-tenant")
	if err != nil {
		t.Fatal(err)
	}
	refused := create("legacy")
	found := namedDecision.FindStringSubmatch(fmt.Sprint(refused))
	if found == nil {
		t.Fatalf("the refusal names no decision: %v", refused)
	}
	said := ""
	suite.Until(t, "the decision is recorded", func() (err error) {
		said, err = ephor("why", found[1], "-f", records, "--exception", "-p", write(t, suite.RequireTeam), "--reason", "it is older than the rule", "--owner", "team-shop", "--create", "--kubeconfig="+tenant)
		return err
	})
	name := strings.TrimPrefix(cluster.Must(t, "", "get", "policyexceptions.kyverno.io", "-n", "default", "-o", "name"), "policyexception.kyverno.io/")
	name = strings.TrimSpace(name)
	if name == "" || !strings.Contains(said, name) {
		t.Errorf("%s was created, and the command says %s", name, said)
	}
	if owner := cluster.Must(t, "", "get", "policyexceptions.kyverno.io", name, "-n", "default", "-o", `jsonpath={.metadata.annotations.exceptions\.ephor\.dev/owner} {.spec.match..names}`); owner != `team-shop ["legacy"]` {
		t.Errorf("the request says %s", owner)
	}
	event(name)
	exempt("legacy", false)

	// An approver without the right, and one with it.
	const approve = "exceptions.ephor.dev/approve=yes"
	cluster.Must(t, "", "annotate", "policyexceptions.kyverno.io", name, "-n", "default", approve, "--as=tenant")
	exempt("legacy", false)
	cluster.Must(t, "", "annotate", "policyexceptions.kyverno.io", name, "-n", "default", "exceptions.ephor.dev/approve=again", "--overwrite", "--as=jane")
	exempt("legacy", true)
	approval := cluster.Must(t, "", "get", "policyexceptions.kyverno.io", name, "-n", "default", "-o", "jsonpath={.status.approval}")
	if !strings.Contains(approval, `"by":"jane"`) {
		t.Errorf("the approval is %s", approval)
	}

	// A copied approval.
	cluster.Must(t, exceptionFor("copied", "other"), "create", "-f", "-", "--as=tenant")
	const written = "status.approval is written by the controllers only"
	replay := func(name string) {
		t.Helper()
		_, err := cluster.Try(t, "", "patch", "policyexceptions.kyverno.io", name, "-n", "default", "--subresource=status", "--type=merge", "-p", `{"status":{"approval":`+approval+`}}`, "--as=tenant")
		if err == nil || !strings.Contains(err.Error(), written) {
			t.Errorf("an approval is put into %s: %v", name, err)
		}
	}
	replay("copied")
	exempt("other", false)

	// Changed content is pending again. The approval of the earlier state cannot be put back, and does not count for the same spec again.
	names := func(list string) string {
		return `[{"op": "add", "path": "/spec/match/all/0/resources/names", "value": ` + list + `}]`
	}
	cluster.Must(t, "", "patch", "policyexceptions.kyverno.io", name, "-n", "default", "--type=json", "-p", names(`["*"]`), "--as=tenant")
	exempt("legacy", false)
	replay("copied")
	cluster.Must(t, "", "patch", "policyexceptions.kyverno.io", name, "-n", "default", "--type=json", "-p", names(`["legacy"]`), "--as=tenant")

	// Merging approves, if the identity that applies may approve.
	for what, user := range map[string]string{"argo": "system:serviceaccount:argocd:argocd-application-controller", "flux": "system:serviceaccount:apps:flux-applier"} {
		cluster.Must(t, exceptionFor(what, what), "apply", "--server-side", "--field-manager="+what, "-f", "-", "--as="+user)
		exempt(what, true)
	}
	cluster.Must(t, exceptionFor("unapproved", "unapproved"), "apply", "--server-side", "--field-manager=kustomize-controller", "-f", "-", "--as=system:serviceaccount:apps:flux-tenant")
	event("unapproved")
	for _, name := range []string{"unapproved", "legacy", "other"} { // the later approvals of argo and flux are in force, so these states are known
		exempt(name, false)
	}

	// A restored exception has another UID.
	cluster.Must(t, "", "delete", "policyexceptions.kyverno.io", "argo", "-n", "default")
	cluster.Must(t, exceptionFor("argo", "argo"), "create", "-f", "-", "--as=tenant")
	event("argo")
	exempt("argo", false)
	suite.Until(t, "the metric counts it", func() error {
		lines := pendingMetric.FindString(suite.Metrics(t, replica.MetricsAddr))
		if !strings.HasSuffix(lines, " 4") {
			return fmt.Errorf("not four are pending: %s", lines)
		}
		return nil
	})

	// The use is in the status; dry runs are none.
	cluster.Must(t, "", "create", "configmap", "flux", "-n", "default")
	t.Cleanup(func() { _, _ = cluster.Try(t, "", "delete", "configmap", "flux", "-n", "default") })
	suite.Until(t, "the status has the use", func() error {
		if out := cluster.Must(t, "", "get", "policyexceptions.kyverno.io", "flux", "-n", "default", "-o", "jsonpath={.status.use.rules} {.status.approval.by}"); !strings.HasPrefix(out, `["require-team/team"]`) {
			return errors.New(out)
		}
		return nil
	})
}

// After a rotation of the key, approvals stay in force and are made anew, so that the older key can go. Without its key, as after a restore without
// the Secret, an approval has no effect, and an event and a metric say so.
func TestKeysOfApprovals(t *testing.T) {
	replica := cluster.Start(t, devcluster.Admission, "--enablePolicyException", "--exceptionNamespace=*", "--exceptionApproval")
	suite.Until(t, "policies are reviewed by this replica", func() error {
		_, err := cluster.Try(t, suite.RequireTeam, "apply", "--dry-run=server", "-f", "-")
		return err
	})
	cluster.Apply(t, suite.RequireTeam+"---"+requesting)
	suite.Until(t, "the policy is enforced", func() error { return cluster.Enforced(t.Context()) })
	const name = "kept"
	t.Cleanup(func() { _, _ = cluster.Try(t, "", "delete", "policyexceptions.kyverno.io", name, "-n", "default") })
	create := func() error {
		_, err := cluster.Try(t, "", "create", "configmap", name, "-n", "default", "--dry-run=server")
		return err
	}
	approval := func(field string) string {
		return cluster.Must(t, "", "get", "policyexceptions.kyverno.io", name, "-n", "default", "-o", "jsonpath={.status.approval."+field+"}")
	}
	keyOf := func(seal string) string {
		_, rest, _ := strings.Cut(seal, ".")
		id, _, _ := strings.Cut(rest, ".")
		return id
	}

	cluster.Must(t, exceptionFor(name, name), "create", "-f", "-", "--as=jane")
	suite.Until(t, "the exception is in force", create)
	old, at := approval("seal"), approval("at")
	said, err := ephor("exceptions", "rotate-key", "--namespace="+suite.Namespace, "--kubeconfig="+cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	suite.Until(t, "the approval is made anew", func() error {
		if err := create(); err != nil {
			t.Errorf("the exception is not in force while the key is rotated: %v", err)
		}
		if seal := approval("seal"); seal == old || !strings.Contains(said, keyOf(seal)) {
			return fmt.Errorf("the seal is %s, %s", seal, said)
		}
		return nil
	})
	if by, now := approval("by"), approval("at"); by != "jane" || now != at {
		t.Errorf("approved by %s at %s, before at %s", by, now, at)
	}
	// The older key is removed: the next check of the keys changes nothing.
	const secret = "ephor-exception-approvals"
	cluster.Must(t, "", "patch", "secret", secret, "-n", suite.Namespace, "--type=json", "-p", `[{"op": "remove", "path": "/data/`+keyOf(old)+`"}]`)
	checked := suite.Logged(replica, "exception in force", "default/"+name)
	suite.Until(t, "the exceptions are checked with the other keys", func() error {
		if err := create(); err != nil {
			t.Errorf("the exception is not in force without the older key: %v", err)
		}
		if suite.Logged(replica, "exception in force", "default/"+name) == checked {
			return errors.New("not yet")
		}
		return nil
	})

	// All keys are gone.
	cluster.Must(t, "", "delete", "secret", secret, "-n", suite.Namespace)
	suite.Until(t, "the approval has no effect", func() error {
		if create() == nil {
			return errors.New("the exception is in force")
		}
		return nil
	})
	suite.Until(t, "an event and a metric say that it is pending", func() error {
		out := cluster.Must(t, "", "get", "events", "-A", "--field-selector", "reason=ExceptionPending,involvedObject.name="+name, "-o", "jsonpath={.items[*].message}")
		lines := pendingMetric.FindString(suite.Metrics(t, replica.MetricsAddr))
		if !strings.Contains(out, "or the key of the approval is gone") || !strings.HasSuffix(lines, " 1") {
			return fmt.Errorf("%s, %s", out, lines)
		}
		return nil
	})
	cluster.Must(t, "", "annotate", "policyexceptions.kyverno.io", name, "-n", "default", "exceptions.ephor.dev/approve=again", "--as=jane")
	suite.Until(t, "it is approved with a new key", create)
}

// write writes a text into a file and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
