package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const eventsPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: e2e-events}
spec:
  rules:
  - name: owner
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [e2e-events]}}]}
    validate:
      failureAction: Enforce
      message: "an owner is required"
      pattern: {metadata: {labels: {owner: "?*"}}}
  - name: team
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [e2e-events]}}]}
    validate:
      failureAction: Audit
      message: "a team is recommended"
      pattern: {metadata: {labels: {team: "?*"}}}
`

// A violation creates an event on the policy and one on the resource, in Kyverno's format. A denied request creates an event on the policy
// only, and a dry run creates none.
func TestEvents(t *testing.T) {
	cluster.Namespace(t, "e2e-events")
	cluster.RootCA(t, "e2e-events") // the policy would refuse it, again and again
	t.Cleanup(func() {              // those of a policy are in the namespace default
		must(t, "", "delete", "events", "-n", "default", "--field-selector=involvedObject.name=e2e-events", "--wait=false")
	})
	applyPolicies(t, policyFile(t, eventsPolicy))
	configMap := func(name, labels string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: e2e-events, labels: {%s}}}", name, labels)
	}
	eventually(t, func() error {
		if _, ok := refused(func() error {
			_, err := kubectl(t, configMap("dry", ""), "create", "-f", "-", "--dry-run=server")
			return err
		}()); !ok {
			return errAdmitted
		}
		return nil
	})
	if _, err := kubectl(t, configMap("refused", "team: a"), "create", "-f", "-"); err == nil {
		t.Error("a ConfigMap without an owner was admitted")
	}
	must(t, configMap("audited", "owner: a"), "create", "-f", "-")

	want := []string{
		"ClusterPolicy/e2e-events PolicyViolation Resource Blocked: ConfigMap e2e-events/refused: [owner] fail (blocked); validation error: an owner is required. rule owner failed at path /metadata/labels/owner/",
		"ClusterPolicy/e2e-events PolicyViolation Resource Passed: ConfigMap e2e-events/audited: [team] fail; validation error: a team is recommended. rule team failed at path /metadata/labels/team/",
		"ConfigMap/audited PolicyViolation Resource Passed: policy e2e-events/team fail: validation error: a team is recommended. rule team failed at path /metadata/labels/team/",
		"ConfigMap/audited PolicyViolation Resource Passed: policy e2e-events/owner pass: validation rule 'owner' passed.",
	}
	eventually(t, func() error {
		const columns = `{range .items[?(@.reportingComponent=="kyverno-admission")]}{.involvedObject.kind}/{.involvedObject.name} {.reason} {.action}: {.message}{"\n"}{end}`
		var got []string
		for _, namespace := range []string{"default", "e2e-events"} {
			for line := range strings.Lines(must(t, "", "get", "events", "-n", namespace, "-o", "jsonpath="+columns)) {
				if line = strings.TrimSpace(line); strings.Contains(line, "e2e-events") {
					got = append(got, line)
				}
			}
		}
		for _, w := range want {
			if !slices.Contains(got, w) {
				return fmt.Errorf("no event %q among %q", w, got)
			}
		}
		if len(got) != len(want) {
			return fmt.Errorf("%d events, want %d: %q", len(got), len(want), got)
		}
		return nil
	})
}
