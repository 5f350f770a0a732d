package trust

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
)

// configMap returns the manifest of a ConfigMap.
func configMap(namespace, name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: " + namespace + "}\n"
}

// refused waits until the creation of an object is denied with the text.
func refused(t *testing.T, manifest, text string) {
	t.Helper()
	suite.Eventually(t, func() error {
		_, err := cluster.Try(t, manifest, "create", "--dry-run=server", "-f", "-")
		if err == nil {
			return errors.New("it was admitted")
		}
		if !strings.Contains(err.Error(), text) {
			return fmt.Errorf("%q is not in %w", text, err)
		}
		return nil
	})
}

// admitted fails the test if the creation of an object is denied.
func admitted(t *testing.T, manifest string) {
	t.Helper()
	if _, err := cluster.Try(t, manifest, "create", "--dry-run=server", "-f", "-"); err != nil {
		t.Errorf("another namespace is refused: %v", err)
	}
}

// byMallory creates a Policy as mallory, and deletes it after the test.
func byMallory(t *testing.T, policy string) {
	t.Helper()
	suite.Eventually(t, func() error { // the role admin is aggregated some time after the start
		_, err := asMallory(t, policy, "apply", "-f", "-")
		return err
	})
	t.Cleanup(func() {
		if _, err := cluster.Try(t, policy, "delete", "--ignore-not-found", "-n", mallory, "-f", "-"); err != nil {
			t.Error(err)
		}
	})
}

// TestT4ConditionsOfANamespacedPolicy: a condition that always fails denies requests in the namespace of its policy only.
func TestT4ConditionsOfANamespacedPolicy(t *testing.T) {
	byMallory(t, `
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: t4-errs, namespace: mallory}
spec:
  background: false
  webhookConfiguration:
    failurePolicy: Fail
    matchConditions: [{name: errs, expression: "2 / 0 == 1"}]
  rules:
  - name: all
    match: {any: [{resources: {kinds: ["*"]}}]}
    validate: {failureAction: Audit, message: "t4-errs says no", deny: {}}
`)
	refused(t, configMap(mallory, "t4"), "division by zero")
	admitted(t, configMap("victim", "t4"))
	admitted(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: t4}\n")
	admitted(t, "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: t4}\n")
}

// TestT4TimeoutOfANamespacedPolicy: the timeout of a namespaced policy applies to its namespace only.
func TestT4TimeoutOfANamespacedPolicy(t *testing.T) {
	cluster.Apply(t, `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: t4-shared}
spec:
  background: false
  rules:
  - name: refuse
    match: {any: [{resources: {kinds: [ConfigMap], names: [t4-timeout]}}]}
    validate: {failureAction: Enforce, message: "t4-shared says no", deny: {}}
`)
	byMallory(t, `
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: t4-slow, namespace: mallory}
spec:
  background: false
  webhookConfiguration: {timeoutSeconds: 29}
  rules:
  - name: refuse
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate: {failureAction: Enforce, message: "t4-slow says no", deny: {}}
`)
	refused(t, configMap(mallory, "t4"), "t4-slow says no")
	refused(t, configMap("victim", "t4-timeout"), "t4-shared says no")
	admitted(t, configMap("victim", "t4"))
	own := false
	const slow = `jsonpath={range .webhooks[?(@.timeoutSeconds==29)]}{.name}{.namespaceSelector}{"\n"}{end}`
	for line := range strings.Lines(cluster.Must(t, "", "get", "validatingwebhookconfigurations", "kyverno-resource-validating-webhook-cfg", "-o", slow)) {
		if !strings.Contains(line, `"operator":"In","values":["mallory"]`) {
			t.Errorf("a webhook with mallory's timeout is not confined to the namespace: %s", line)
		}
		own = true
	}
	if !own {
		t.Error("no webhook has mallory's timeout")
	}
}

// TestT4VersionsOfANamespacedPolicy: a cluster-wide policy that names a version of a kind receives requests for other versions in this
// version, also if mallory's policy names all kinds, or another version.
func TestT4VersionsOfANamespacedPolicy(t *testing.T) {
	cluster.Apply(t, `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: t4-first}
spec:
  background: false
  rules:
  - name: refuse
    match: {any: [{resources: {kinds: [autoscaling/v1/HorizontalPodAutoscaler]}}]}
    validate: {failureAction: Enforce, message: "t4-first says no", deny: {}}
`)
	scaler := func(namespace, version string) string {
		return "apiVersion: autoscaling/" + version + "\nkind: HorizontalPodAutoscaler\nmetadata: {name: t4, namespace: " + namespace + "}\n" +
			"spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: t4}}\n"
	}
	refused(t, scaler("victim", "v2"), "t4-first says no")
	for _, kind := range []string{`"*"`, "HorizontalPodAutoscaler", "autoscaling/v2/HorizontalPodAutoscaler"} {
		byMallory(t, `
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: t4-widens, namespace: mallory}
spec:
  background: false
  rules:
  - name: refuse
    match: {any: [{resources: {kinds: [`+kind+`], names: [t4-widens, t4]}}]}
    validate: {failureAction: Enforce, message: "t4-widens says no to `+strings.Trim(kind, `"`)+`", deny: {}}
`)
		if kind == `"*"` { // a wildcard includes every kind
			refused(t, configMap(mallory, "t4-widens"), "t4-widens says no to *")
		}
		refused(t, scaler(mallory, "v2"), "t4-widens says no to "+strings.Trim(kind, `"`))
		for _, version := range []string{"v1", "v2"} {
			if out, err := cluster.Try(t, scaler("victim", version), "create", "--dry-run=server", "-f", "-"); err == nil || !strings.Contains(err.Error(), "t4-first says no") {
				t.Errorf("beside a policy on %s, %s in another namespace: %s (%v)", kind, version, out, err)
			}
		}
	}
}
