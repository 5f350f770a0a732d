package trust

import (
	"errors"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
)

var errNotMutated = errors.New("the policy does not mutate yet")

// TestT9NamespaceWithAForgedLabel: a Namespace whose name is generated cannot bypass policies with a forged name label. Each Namespace is
// mutated once.
func TestT9NamespaceWithAForgedLabel(t *testing.T) {
	cluster.Apply(t, `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: t9-count}
spec:
  background: false
  rules:
  - name: count
    match: {any: [{resources: {kinds: [Namespace], operations: [CREATE]}}]}
    mutate: {patchStrategicMerge: {metadata: {annotations: {t9: "{{ request.object.metadata.annotations.t9 || '' }}x"}}}}
`)
	create := func(meta string) (string, error) {
		return cluster.Try(t, "apiVersion: v1\nkind: Namespace\nmetadata: {"+meta+"}\n", "create", "--dry-run=server", "-f", "-", "-o", `jsonpath={.metadata.annotations.t9}`)
	}
	suite.Eventually(t, func() error {
		out, err := create("name: t9")
		if err == nil && out == "" {
			return errNotMutated
		}
		return err
	})
	for _, meta := range []string{
		`name: t9`,
		`generateName: t9-`,
		`generateName: t9-, labels: {kubernetes.io/metadata.name: other}`,
		`generateName: t9-, labels: {kubernetes.io/metadata.name: kube-system}`,
		`generateName: t9-, labels: {kubernetes.io/metadata.name: kyverno}`,
	} {
		if out, err := create(meta); err != nil || out != "x" {
			t.Errorf("%s: mutated %d times, %v", meta, len(out), err)
		}
	}
}

// TestT9ValidatedNamespace: before validation, the API server sets the name of a Namespace and the label.
func TestT9ValidatedNamespace(t *testing.T) {
	cluster.Apply(t, `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: t9-refuse}
spec:
  background: false
  rules:
  - name: refuse
    match: {any: [{resources: {kinds: [Namespace], operations: [CREATE], selector: {matchLabels: {t9: refuse}}}}]}
    validate: {failureAction: Enforce, message: "t9-refuse says no", deny: {}}
`)
	refused(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: t9, labels: {t9: refuse}}\n", "t9-refuse says no")
	for _, forged := range []string{"kube-system", "kyverno"} {
		manifest := "apiVersion: v1\nkind: Namespace\nmetadata: {generateName: t9-, labels: {t9: refuse, kubernetes.io/metadata.name: " + forged + "}}\n"
		if _, err := cluster.Try(t, manifest, "create", "--dry-run=server", "-f", "-"); err == nil || !strings.Contains(err.Error(), "t9-refuse says no") {
			t.Errorf("a Namespace that claims to be %s: %v", forged, err)
		}
	}
}
