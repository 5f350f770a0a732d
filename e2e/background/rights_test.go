package background

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
)

const tenantPolicy = `
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: tenant, namespace: tenant}
spec:
  rules:
  - name: make
    match: {any: [{resources: {kinds: [ConfigMap], names: [t]}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: made, namespace: tenant, data: {data: {k: "{{request.object.data.v}}"}}}
  - name: change
    match: {any: [{resources: {kinds: [ConfigMap], names: [t]}}]}
    mutate: {targets: [{apiVersion: v1, kind: ConfigMap, name: "*", selector: {matchLabels: {shared: "yes"}}}], patchStrategicMerge: {data: {by: tenant}}}
`

// S7: a namespaced policy works in its own namespace only, even if the background controller may do more. A policy that names other
// namespaces is denied; a target outside that matches at run time is skipped.
func TestS7NamespacedPolicies(t *testing.T) {
	start(t)
	namespaces(t, "tenant", "tenant-other")
	for _, namespace := range []string{"tenant", "tenant-other"} {
		create(t, configMap(namespace, "target", map[string]string{"shared": "yes"}, nil))
	}
	apply(t, tenantPolicy)
	create(t, configMap("tenant", "t", nil, map[string]string{"v": "1"}))
	has(t, "tenant", "made", "k", "1")
	has(t, "tenant", "target", "by", "tenant")
	create(t, configMap("tenant-other", "t", nil, map[string]string{"v": "1"}))
	drained(t)
	if got := state(t, "tenant-other", "made", "k") + state(t, "tenant-other", "target", "by"); got != gone {
		t.Errorf("the policy worked elsewhere: %s", got)
	}
	for _, outside := range []string{"tenant-other", "\"{{request.object.data.v}}\""} {
		policy := strings.NewReplacer("name: tenant,", "name: outside,", "name: made, namespace: tenant", "name: made, namespace: "+outside).Replace(tenantPolicy)
		if _, err := cluster.Try(t, policy, "create", "-f", "-"); err == nil || !strings.Contains(err.Error(), "a namespaced policy cannot generate resources in other namespaces") {
			t.Errorf("generating in %s: %v", outside, err)
		}
	}
}

const fabricated = `
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: fabricating, namespace: fabricating}
spec:
  rules:
  - name: change
    match: {any: [{resources: {kinds: [ConfigMap], names: [t]}}]}
    mutate:
      targets: [{apiVersion: v1, kind: ConfigMap, name: "{{request.object.data.name}}", uid: "{{request.object.data.uid}}"}]
      patchStrategicMerge: {metadata: {namespace: fabricating-other, name: victim, uid: "{{request.object.data.uid}}", labels: {taken: "yes"}}, data: {by: fabricating}}
`

// S9: targets are the objects that the API server returns for the name, in the policy's namespace. Neither expressions nor patches with
// another name or namespace can select other objects.
func TestS9FabricatedTargets(t *testing.T) {
	start(t)
	namespaces(t, "fabricating", "fabricating-other")
	victim := create(t, configMap("fabricating-other", "victim", nil, nil))
	own := create(t, configMap("fabricating", "victim", nil, nil))
	apply(t, fabricated)
	create(t, configMap("fabricating", "t", nil, map[string]string{"name": "victim", "uid": string(victim.UID)}))
	drained(t)
	if got := state(t, "fabricating", "victim", "by") + state(t, "fabricating-other", "victim", "by"); got != "" {
		t.Errorf("a target that is not there was changed: %q", got)
	}
	remove(t, "fabricating", "t")
	create(t, configMap("fabricating", "t", nil, map[string]string{"name": "victim", "uid": string(own.UID)}))
	has(t, "fabricating", "victim", "by", "fabricating")
	if got := state(t, "fabricating-other", "victim", "by"); got != "" {
		t.Errorf("the patch moved to another object: %q", got)
	}
}

const ownedPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: owned}
spec:
  rules:
  - name: copy
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [owned], names: [t]}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: copy-%[1]s, namespace: %[1]s, clone: {namespace: owned, name: source}}
  - name: list
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [owned], names: [t]}}]}
    generate: {synchronize: true, namespace: owned-other, cloneList: {namespace: owned, kinds: [v1/ConfigMap], selector: {matchLabels: {copied: "yes"}}}}
  - name: authored
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [owned], names: [t]}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: authored, namespace: owned-other, data: {metadata: {ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: "{{request.object.data.owner}}"}]}, data: {k: v}}}
`

// S10: generated objects have no owners in other namespaces, which would let the garbage collector delete them: neither the owner of a
// copied source, nor one that the policy names.
func TestS10ForeignOwners(t *testing.T) {
	start(t)
	namespaces(t, "owned", "owned-other")
	owner := create(t, configMap("owned", "owner", nil, nil))
	cluster.Must(t, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: source, namespace: owned, labels: {copied: 'yes'}, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: %s}]}, data: {k: v}}", owner.UID), "create", "-f", "-")
	for _, namespace := range []string{"owned-other", "owned"} {
		apply(t, fmt.Sprintf(ownedPolicy, namespace))
		cluster.Must(t, "", "delete", "configmap", "t", "-n", "owned", "--ignore-not-found")
		drained(t)
		create(t, configMap("owned", "t", nil, map[string]string{"owner": string(owner.UID)}))
		has(t, namespace, "copy-"+namespace, "k", "v")
		has(t, "owned-other", "source", "k", "v")
		has(t, "owned-other", "authored", "k", "v")
		for _, object := range []string{namespace + "/copy-" + namespace, "owned-other/source", "owned-other/authored"} {
			ns, name, _ := strings.Cut(object, "/")
			suite.Eventually(t, func() error {
				if got := cluster.Must(t, "", "get", "configmap", name, "-n", ns, "-o", "jsonpath={.metadata.ownerReferences}"); got != "" {
					return fmt.Errorf("%s has the owners %s", object, got)
				}
				return nil
			})
		}
	}
	drained(t)
}
