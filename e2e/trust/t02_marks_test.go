package trust

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

const t2Policy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: t2}
spec:
  rules:
  - name: deny
    match: {any: [{resources: {kinds: [Namespace], selector: {matchLabels: {t2: "yes"}}}}]}
    generate:
      synchronize: true
      apiVersion: networking.k8s.io/v1
      kind: NetworkPolicy
      name: default-deny
      namespace: "{{request.object.metadata.name}}"
      data: {spec: {podSelector: {}, policyTypes: [Ingress]}}
  - name: settings
    match: {any: [{resources: {kinds: [Namespace], selector: {matchLabels: {t2: "yes"}}}}]}
    generate:
      synchronize: true
      apiVersion: v1
      kind: ConfigMap
      name: settings
      namespace: "{{request.object.metadata.name}}"
      clone: {namespace: t2-source, name: settings}
---
apiVersion: v1
kind: Namespace
metadata: {name: t2-source}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: t2-source}
data: {k: v}
`

// workDone waits until the policy has no pending work.
func workDone(t *testing.T, policy string) {
	t.Helper()
	suite.Until(t, "no UpdateRequest of "+policy+" is left", func() error {
		out := cluster.Must(t, "", "get", "updaterequests", "-n", suite.Namespace, "-o", `jsonpath={range .items[?(@.spec.policy=="`+policy+`")]}{.metadata.name} {.status.state} {.status.message}{"\n"}{end}`)
		if out != "" {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
}

// uidOf returns the UID of an object; empty if it does not exist.
func uidOf(t *testing.T, args ...string) string {
	t.Helper()
	return cluster.Must(t, "", append([]string{"get", "--ignore-not-found", "-o", "jsonpath={.metadata.uid}"}, args...)...)
}

// generated waits until an object exists, and returns its UID.
func generated(t *testing.T, args ...string) (uid string) {
	t.Helper()
	suite.Until(t, strings.Join(args, " ")+" is generated", func() error {
		if uid = uidOf(t, args...); uid == "" {
			return fmt.Errorf("it is not there")
		}
		return nil
	})
	return uid
}

// forgedLabels returns the labels of an object that a rule created for a trigger, as any user can write them.
func forgedLabels(policy, rule, triggerKind, triggerNamespace, triggerUID, more string) string {
	return fmt.Sprintf(`{app.kubernetes.io/managed-by: kyverno, generate.kyverno.io/policy-name: %q, generate.kyverno.io/policy-namespace: "", `+
		`generate.kyverno.io/rule-name: %q, generate.kyverno.io/trigger-version: v1, generate.kyverno.io/trigger-group: "", generate.kyverno.io/trigger-kind: %q, `+
		`generate.kyverno.io/trigger-namespace: %q, generate.kyverno.io/trigger-uid: %q%s}`, policy, rule, triggerKind, triggerNamespace, triggerUID, more)
}

// T2: labels of mallory's object claim that it was generated for another namespace. Changes and deletions of it change nothing there: Ephor
// recognizes generated objects by a mark that users cannot forge.
func TestT2ForgedLabels(t *testing.T) {
	cluster.Start(t, devcluster.Background)
	cluster.Apply(t, t2Policy)
	cluster.Must(t, "", "wait", "--for=condition=Ready", "clusterpolicy", "t2")
	cluster.Must(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: t2-victim, labels: {t2: 'yes'}}", "create", "-f", "-")
	t.Cleanup(func() { _, _ = cluster.Try(t, "", "delete", "namespace", "t2-victim", "--wait=false") })
	deny := generated(t, "networkpolicy", "default-deny", "-n", "t2-victim")
	settings := generated(t, "configmap", "settings", "-n", "t2-victim")
	workDone(t, "t2")
	trigger := uidOf(t, "namespace", "t2-victim")
	source := uidOf(t, "configmap", "settings", "-n", "t2-source")
	for name, c := range map[string]struct{ rule, namespace, more string }{
		"no such name":      {"deny", "", ", generate.kyverno.io/trigger-name: no-such"},
		"another name":      {"deny", "", ", generate.kyverno.io/trigger-name: victim"},
		"another namespace": {"deny", "mallory", ""},
		"a copy":            {"settings", "", ", generate.kyverno.io/trigger-name: no-such, generate.kyverno.io/source-uid: " + source},
	} {
		t.Run(name, func(t *testing.T) {
			for kind, manifest := range map[string]string{
				"networkpolicy": "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: forged, labels: %s}\nspec: {podSelector: {}}",
				"configmap":     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: forged, labels: %s}",
			} {
				manifest = fmt.Sprintf(manifest, forgedLabels("t2", c.rule, "Namespace", c.namespace, trigger, c.more))
				if _, err := asMallory(t, manifest, "create", "-f", "-"); err != nil {
					t.Fatal(err)
				}
				if _, err := asMallory(t, "", "annotate", kind, "forged", "touched=yes"); err != nil {
					t.Fatal(err)
				}
				workDone(t, "t2")
				if _, err := asMallory(t, "", "delete", kind, "forged", "--ignore-not-found"); err != nil {
					t.Fatal(err)
				}
				workDone(t, "t2")
			}
			for what, want := range map[string]string{"networkpolicy default-deny": deny, "configmap settings": settings} {
				kind, object, _ := strings.Cut(what, " ")
				if got := uidOf(t, kind, object, "-n", "t2-victim"); got != want {
					t.Errorf("mallory deletes the %s of another namespace: its UID is %q, and was %q", what, got, want)
				}
			}
		})
	}
	// A source of mallory's, with the label of sources, is copied nowhere.
	if _, err := asMallory(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: source, labels: {generate.kyverno.io/clone-source: ''}}", "create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	if _, err := asMallory(t, "", "delete", "configmap", "source"); err != nil {
		t.Fatal(err)
	}
	workDone(t, "t2")
	if got := uidOf(t, "configmap", "settings", "-n", "t2-victim"); got != settings {
		t.Errorf("mallory deletes a copy in another namespace: its UID is %q, and was %q", got, settings)
	}
}

// T2: a user removes the mark and the labels of a generated object, and its rule is deleted before they are restored. The record of
// generated objects finds the object. An object of the same name that was created since is not deleted.
func TestT2RemovedMark(t *testing.T) {
	background := cluster.Start(t, devcluster.Background)
	cluster.Apply(t, strings.ReplaceAll(t2Policy, "t2", "t2-removed"))
	cluster.Must(t, "", "wait", "--for=condition=Ready", "clusterpolicy", "t2-removed")
	namespaces := []string{"t2-unmarked", "t2-replaced"}
	for _, ns := range namespaces {
		cluster.Must(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+ns+", labels: {t2-removed: 'yes'}}", "create", "-f", "-")
		t.Cleanup(func() { _, _ = cluster.Try(t, "", "delete", "namespace", ns, "--wait=false") })
		generated(t, "networkpolicy", "default-deny", "-n", ns)
		generated(t, "configmap", "settings", "-n", ns)
	}
	workDone(t, "t2-removed")
	suite.Stop(t, background) // it stores the record
	for _, ns := range namespaces {
		cluster.Must(t, `{"metadata": {"labels": null, "annotations": null}}`, "patch", "networkpolicy", "default-deny", "-n", ns, "--type=merge", "--patch-file=/dev/stdin")
	}
	cluster.Must(t, "", "delete", "networkpolicy", "default-deny", "-n", "t2-replaced")
	cluster.Must(t, "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: default-deny}\nspec: {podSelector: {}}", "create", "-n", "t2-replaced", "-f", "-")
	cluster.Must(t, "", "delete", "clusterpolicy", "t2-removed")
	cluster.Start(t, devcluster.Background)
	gone := func(what ...string) {
		t.Helper()
		suite.Until(t, strings.Join(what, " ")+" goes with its rule", func() error { return equal(uidOf(t, what...), "") })
	}
	gone("networkpolicy", "default-deny", "-n", "t2-unmarked")
	for _, ns := range namespaces {
		gone("configmap", "settings", "-n", ns)
	}
	if uidOf(t, "networkpolicy", "default-deny", "-n", "t2-replaced") == "" {
		t.Error("an object of a user is deleted because one of the same name was generated")
	}
}

func equal(got, want string) error {
	if got != want {
		return fmt.Errorf("it is %q, not %q", got, want)
	}
	return nil
}
