package trust

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
)

// TestSettingsOfOtherNamespaces: only ConfigMaps and Leases of Ephor's own namespace configure filters and leaders. Objects with the same
// names in mallory's namespace have no effect, and mallory cannot write in Ephor's.
func TestSettingsOfOtherNamespaces(t *testing.T) {
	cluster.Apply(t, suite.RequireTeam)
	suite.Until(t, "the policy is enforced", func() error { return cluster.Enforced(t.Context()) })
	names := func(kind string) []string {
		return strings.Fields(cluster.Must(t, "", "get", kind, "-n", suite.Namespace, "-o", `jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}`))
	}
	maps, leases := names("configmaps"), names("leases")
	if len(maps) < 1 || len(leases) < 1 {
		t.Fatalf("our namespace has the ConfigMaps %q and the Leases %q", maps, leases)
	}
	holders := func() string {
		return cluster.Must(t, "", "get", "leases", "-n", suite.Namespace, "-o", `jsonpath={range .items[*]}{.metadata.name}={.spec.holderIdentity} {end}`)
	}
	before := holders()
	copies := ""
	for _, name := range maps {
		copies += fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\ndata: {resourceFilters: '[*,*,*]', excludeGroups: 'system:masters', excludeUsernames: '*', expandData: '*'}\n---\n", name, mallory)
	}
	for _, name := range leases {
		copies += fmt.Sprintf("apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: %s, namespace: %s}\nspec: {holderIdentity: mallory, leaseDurationSeconds: 3600, renewTime: \"2096-01-01T00:00:00.000000Z\"}\n---\n", name, mallory)
	}
	loaded := suite.Rounds(t, admission, "config-controller")
	cluster.Apply(t, copies)
	suite.Round(t, admission, "config-controller", func() {
		cluster.Must(t, "", "annotate", "configmap", "kyverno", "-n", suite.Namespace, fmt.Sprint("settings-test=", mallory), "--overwrite")
	})
	cluster.Must(t, "", "annotate", "configmap", "kyverno", "-n", suite.Namespace, "settings-test-")
	if n := suite.Rounds(t, admission, "config-controller"); n > loaded+2 {
		t.Errorf("with the ConfigMaps %q in another namespace the settings were loaded %d times after two changes", maps, n-loaded)
	}
	if err := cluster.Enforced(t.Context()); err != nil {
		t.Errorf("with the ConfigMaps %q in another namespace: %v", maps, err)
	}
	if after := holders(); after != before {
		t.Errorf("the Leases were held by %s, and are held by %s", before, after)
	}
	for _, kind := range []string{"configmaps", "leases", "secrets"} {
		for _, verb := range []string{"create", "update", "patch", "delete"} {
			out, _ := cluster.Try(t, "", "auth", "can-i", verb, kind, "-n", suite.Namespace, "--as="+mallory)
			if strings.TrimSpace(out) != "no" {
				t.Errorf("may mallory %s %s in our namespace? %s", verb, kind, out)
			}
		}
	}
}
