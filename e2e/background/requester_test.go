package background

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const requesterPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: requester}
spec:
  background: false
  rules:
  - name: r
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [asked]}, subjects: [{kind: User, name: alice}]}]}
    exclude: {any: [{resources: {selector: {matchLabels: {excluded: "yes"}}}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: "{{request.object.metadata.name}}", namespace: asked-made, data: {data: {k: v}}}
`

// Objects that were generated for objects of one requester are deleted with them, whichever client deletes these: the garbage collector is
// never a requester for whom a rule generates.
func TestTriggerDeletedByAnotherClient(t *testing.T) {
	start(t)
	namespaces(t, "asked", "asked-made")
	apply(t, requesterPolicy)
	for _, name := range []string{"deleted", "excluded", "touched"} {
		cluster.Must(t, "", "create", "configmap", name, "-n", "asked", "--as=alice", "--as-group=system:masters")
		has(t, "asked-made", name, "k", "v")
	}
	create(t, configMap("asked", "stranger", nil, nil))
	remove(t, "asked", "deleted")
	change(t, "asked", "excluded", func(o *corev1.ConfigMap) { o.Labels = map[string]string{"excluded": "yes"} })
	change(t, "asked", "touched", func(o *corev1.ConfigMap) { o.Data = map[string]string{"more": "x"} })
	drained(t)
	for name, want := range map[string]string{"deleted": gone, "excluded": gone, "touched": "v", "stranger": gone} {
		has(t, "asked-made", name, "k", want)
	}
}
