package background

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"ephor.invalid/ephor/e2e/suite"
)

// generatingPolicy creates, for each ConfigMap NAME-t* of a namespace, a copy of NAME-source and an object with data in another namespace.
// The parameters are NAME, whether it synchronizes, further fields of evaluation, and the first namespace.
const generatingPolicy = `
apiVersion: policies.kyverno.io/v1
kind: GeneratingPolicy
metadata: {name: %[1]s}
spec:
  evaluation: {synchronize: {enabled: %[2]t}%[3]s}
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[4]s}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  matchConditions: [{name: trigger, expression: "object.metadata.name.startsWith('%[1]s-t') && !('off' in object.metadata.?labels.orValue({}))"}]
  variables:
  - {name: source, expression: "resource.get('v1', 'configmaps', '%[4]s', '%[1]s-source')"}
  generate:
  - expression: generator.apply('%[4]s-made', [variables.source])
  - template:
      interpolate: cel
      value: |
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "(( object.metadata.name ))-data", namespace: %[4]s-made}
        data: {k: "p1-(( object.data.v ))"}
`

// celApply applies CEL policies, waits until each is ready, and deletes them at the end of the test.
func celApply(t *testing.T, resource, manifest string) {
	t.Helper()
	cluster.Apply(t, manifest)
	celReady(t, resource)
}

func celReady(t *testing.T, resource string) {
	t.Helper()
	suite.Eventually(t, func() error {
		out, err := cluster.Try(t, "", "get", resource, "-A", "-o", `jsonpath={range .items[*]}{.metadata.name} {.status.conditionStatus.ready}{"\n"}{end}`)
		for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
			if err == nil && !strings.HasSuffix(line, " true") {
				err = fmt.Errorf("not ready: %s", line)
			}
		}
		return err
	})
}

// A GeneratingPolicy creates objects for its triggers. With synchronize it keeps them equal to its result, and deletes objects that are no
// longer part of the result; without, it leaves them unchanged.
func TestGeneratingPolicy(t *testing.T) {
	r := start(t)
	namespaces(t, "gen", "gen-made")
	for _, sync := range []bool{true, false} {
		t.Run(fmt.Sprintf("synchronize=%t", sync), func(t *testing.T) {
			name := fmt.Sprintf("gen-%t", sync)
			pick := func(synced, once string) string {
				if sync {
					return synced
				}
				return once
			}
			manifest := fmt.Sprintf(generatingPolicy, name, sync, "", "gen")
			create(t, configMap("gen", name+"-source", nil, map[string]string{"k": "s1"}))
			celApply(t, "generatingpolicies", manifest)
			trigger, source, made, copied := name+"-t", name+"-source", name+"-t-data", name+"-source"
			create(t, configMap("gen", trigger, nil, map[string]string{"v": "1"}))
			has(t, "gen-made", made, "k", "p1-1")
			has(t, "gen-made", copied, "k", "s1")
			drained(t)
			labels := cluster.Must(t, "", "get", "configmap", made, "-n", "gen-made", "-o",
				`jsonpath={.metadata.labels.app\.kubernetes\.io/managed-by} {.metadata.labels.generate\.kyverno\.io/policy-name} {.metadata.labels.generate\.kyverno\.io/trigger-name}`)
			if want := "kyverno " + name + " " + trigger; labels != want {
				t.Errorf("the labels are %q, want %q", labels, want)
			}

			change(t, "gen-made", made, func(o *corev1.ConfigMap) { o.Data["k"] = "mine" })
			has(t, "gen-made", made, "k", pick("p1-1", "mine"))
			remove(t, "gen-made", made)
			has(t, "gen-made", made, "k", pick("p1-1", gone))
			change(t, "gen", source, func(o *corev1.ConfigMap) { o.Data["k"] = "s2" })
			has(t, "gen-made", copied, "k", pick("s2", "s1"))
			change(t, "gen", trigger, func(o *corev1.ConfigMap) { o.Data["v"] = "2" })
			has(t, "gen-made", made, "k", "p1-2") // an update of the trigger creates all objects again
			has(t, "gen-made", copied, "k", "s2")
			drained(t)

			// The changed policy creates another object instead.
			cluster.Must(t, strings.ReplaceAll(manifest, "-data", "-renamed"), "apply", "-f", "-")
			has(t, "gen-made", trigger+"-renamed", "k", pick("p1-2", gone))
			has(t, "gen-made", made, "k", pick(gone, "p1-2"))
			change(t, "gen", trigger, func(o *corev1.ConfigMap) { o.Data["v"] = "3" })
			has(t, "gen-made", trigger+"-renamed", "k", "p1-3")
			drained(t)

			change(t, "gen", trigger, func(o *corev1.ConfigMap) { o.Labels = map[string]string{"off": "yes"} })
			has(t, "gen-made", trigger+"-renamed", "k", pick(gone, "p1-3"))
			has(t, "gen-made", copied, "k", pick(gone, "s2"))
			change(t, "gen", trigger, func(o *corev1.ConfigMap) { o.Labels = nil })
			has(t, "gen-made", trigger+"-renamed", "k", "p1-3")
			has(t, "gen-made", copied, "k", "s2")
			drained(t)

			remove(t, "gen", source)
			has(t, "gen-made", copied, "k", pick(gone, "s2"))
			remove(t, "gen", trigger)
			has(t, "gen-made", trigger+"-renamed", "k", pick(gone, "p1-3"))
			if err := suite.Alive(r); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Deleting a GeneratingPolicy deletes its objects, except orphans, and copies if the policy does not say that they are none. With generateExisting, existing objects are triggers.
func TestGeneratingPolicyDeleted(t *testing.T) {
	start(t)
	namespaces(t, "gendel", "gendel-made")
	for name, evaluation := range map[string]string{"goes": "", "all": ", orphanDownstreamOnPolicyDelete: {enabled: false}", "stays": ", orphanDownstreamOnPolicyDelete: {enabled: true}"} {
		create(t, configMap("gendel", name+"-source", nil, map[string]string{"k": "s1"}))
		create(t, configMap("gendel", name+"-t", nil, map[string]string{"v": "1"}))
		celApply(t, "generatingpolicies", fmt.Sprintf(generatingPolicy, name, true, ", generateExisting: {enabled: true}"+evaluation, "gendel"))
		has(t, "gendel-made", name+"-t-data", "k", "p1-1")
		has(t, "gendel-made", name+"-source", "k", "s1")
	}
	drained(t)
	cluster.Must(t, "", "delete", "generatingpolicy", "all", "goes", "stays")
	settled(t, "all", "goes", "stays")
	has(t, "gendel-made", "goes-t-data", "k", gone)
	has(t, "gendel-made", "all-t-data", "k", gone)
	has(t, "gendel-made", "all-source", "k", gone)
	drained(t)
	for _, made := range []string{"goes-source", "stays-source"} {
		has(t, "gendel-made", made, "k", "s1")
	}
	has(t, "gendel-made", "stays-t-data", "k", "p1-1")
}

// A GeneratingPolicy does not change an object of the same name that another client created.
func TestGeneratingPolicyLeavesOthersAlone(t *testing.T) {
	start(t)
	namespaces(t, "genother", "genother-made")
	create(t, configMap("genother", "other-source", nil, map[string]string{"k": "s1"}))
	theirs := create(t, configMap("genother-made", "other-source", nil, map[string]string{"k": "theirs"}))
	celApply(t, "generatingpolicies", fmt.Sprintf(generatingPolicy, "other", true, "", "genother"))
	create(t, configMap("genother", "other-t", nil, map[string]string{"v": "1"}))
	has(t, "genother-made", "other-t-data", "k", "p1-1")
	drained(t)
	remove(t, "genother", "other-t")
	has(t, "genother-made", "other-t-data", "k", gone)
	drained(t)
	if uid := cluster.Must(t, "", "get", "configmap", "other-source", "-n", "genother-made", "-o", "jsonpath={.metadata.uid} {.data.k}"); uid != string(theirs.UID)+" theirs" {
		t.Errorf("the object of others is %q", uid)
	}
}

const namespacedGenerating = `
apiVersion: policies.kyverno.io/v1
kind: NamespacedGeneratingPolicy
metadata: {name: tenant, namespace: gens}
spec:
  evaluation: {synchronize: {enabled: true}}
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  matchConditions: [{name: trigger, expression: "object.metadata.name == 't'"}]
  generate:
  - template:
      interpolate: cel
      value: |
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: made, namespace: "(( object.data.namespace ))"}
        data: {k: v}
`

// A NamespacedGeneratingPolicy creates objects in its own namespace only, and has triggers in no other.
func TestNamespacedGeneratingPolicy(t *testing.T) {
	start(t)
	namespaces(t, "gens", "gens-made")
	celApply(t, "namespacedgeneratingpolicies", namespacedGenerating)
	create(t, configMap("gens", "t", nil, map[string]string{"namespace": "gens-made"}))
	failing(t, "gens/tenant", `cross-namespace generation denied: a policy in namespace "gens" cannot generate resources into namespace "gens-made"`)
	change(t, "gens", "t", func(o *corev1.ConfigMap) { o.Data["namespace"] = "gens" })
	has(t, "gens", "made", "k", "v")
	create(t, configMap("gens-made", "t", nil, map[string]string{"namespace": "gens-made"}))
	remove(t, "gens", "t")
	has(t, "gens", "made", "k", gone)
	drained(t)
	if got := state(t, "gens-made", "made", "k"); got != gone {
		t.Errorf("the policy worked elsewhere: %q", got)
	}
}
