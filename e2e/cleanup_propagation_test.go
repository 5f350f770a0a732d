package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// owned is a kind that serves as owner and as dependent in the tests of deletion propagation; a finalizer delays the deletion of the
// dependent.
type owned struct{ kind, apiVersion, namespace string }

var ownedKinds = []owned{{"ConfigMap", "v1", "e2e-cleanup"}, {"Trinket", "example.com/v1", ""}}

// get returns a field of one of its objects; empty if the object does not exist.
func (k owned) get(t *testing.T, name, path string) string {
	return must(t, "", "get", k.kind, name, "-n", k.namespace, "--ignore-not-found", "-o", "jsonpath="+path)
}

// family creates an owner with a dependent for each propagation policy, and calls begin to have the owner deleted. It waits until owner and
// dependent are in the state that the propagation policy defines.
func (k owned) family(t *testing.T, prefix string, begin func(owner, propagation string)) {
	t.Helper()
	for _, propagation := range []string{"Foreground", "Background", "Orphan"} {
		owner := prefix + "-" + strings.ToLower(propagation)
		manifest := func(name, more string) string {
			return fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: %q%s}}", k.apiVersion, k.kind, name, k.namespace, more)
		}
		must(t, manifest(owner, ""), "create", "-f", "-")
		uid := k.get(t, owner, "{.metadata.uid}")
		must(t, manifest("of-"+owner, fmt.Sprintf(", finalizers: [example.com/kept], ownerReferences: [{apiVersion: %s, kind: %s, name: %s, uid: %s, blockOwnerDeletion: true}]", k.apiVersion, k.kind, owner, uid)), "create", "-f", "-")
		t.Cleanup(func() {
			ctx := context.Background()
			_, _ = cluster.Kubectl(ctx, nil, "patch", k.kind, "of-"+owner, "-n", k.namespace, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
			_, _ = cluster.Kubectl(ctx, nil, "delete", k.kind, "of-"+owner, "-n", k.namespace, "--ignore-not-found", "--wait=false")
		})
		begin(owner, propagation)
		eventually(t, func() error {
			got := fmt.Sprintf("owner %s, dependent owned %t, going %t", k.get(t, owner, "{.metadata.finalizers[0]}{.metadata.name}"),
				k.get(t, "of-"+owner, "{.metadata.ownerReferences[0].uid}") != "", k.get(t, "of-"+owner, "{.metadata.deletionTimestamp}") != "")
			want := map[string]string{
				"Foreground": "owner foregroundDeletion" + owner + ", dependent owned true, going true",
				"Background": "owner , dependent owned true, going true",
				"Orphan":     "owner , dependent owned false, going false",
			}[propagation]
			if got != want {
				return fmt.Errorf("%s %s: %s", k.kind, propagation, got)
			}
			return nil
		})
	}
}

// The annotation next to a TTL label selects the propagation policy.
func ttlPropagation(t *testing.T) {
	for _, k := range ownedKinds {
		k.family(t, "ttl", func(owner, propagation string) {
			must(t, "", "annotate", k.kind, owner, "-n", k.namespace, "cleanup.kyverno.io/propagation-policy="+propagation)
			must(t, "", "label", k.kind, owner, "-n", k.namespace, "cleanup.kyverno.io/ttl=2023-07-19")
		})
	}
}

// deletionPropagationPolicy of a cleanup policy selects the propagation policy.
func policyPropagation(t *testing.T) {
	for _, k := range ownedKinds {
		k.family(t, "run", func(owner, propagation string) {
			name := strings.ToLower(k.kind) + "-" + owner
			runPolicy(t, fmt.Sprintf(`{apiVersion: kyverno.io/v2, kind: ClusterCleanupPolicy, metadata: {name: %s}, spec: {schedule: %q, deletionPropagationPolicy: %s, match: {any: [{resources: {kinds: [%s], names: [%s]}}]}}}`,
				name, onceAYear, propagation, k.kind, owner), "clustercleanuppolicy", name)
			runs(t, "Succeeded", "clustercleanuppolicy", name)
		})
	}
}
