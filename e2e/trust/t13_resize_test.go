package trust

import (
	"errors"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
)

// TestT13Resize: pods/resize is reviewed by policies on Pods. Changes of other fields than resources are dropped, with a warning to the
// requester.
func TestT13Resize(t *testing.T) {
	cluster.Must(t, "", "create", "serviceaccount", "default", "-n", "victim", "--dry-run=client", "-o", "name")
	cluster.Try(t, "", "create", "serviceaccount", "default", "-n", "victim") // no controller creates it here
	cluster.Apply(t, `
apiVersion: v1
kind: Pod
metadata: {name: t13, namespace: victim}
spec:
  automountServiceAccountToken: false
  containers: [{name: c, image: registry.example/c, resources: {requests: {cpu: 100m}, limits: {cpu: 200m}}}]
`)
	cluster.Apply(t, `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: t13-limits}
spec:
  background: false
  rules:
  - name: limits
    match: {any: [{resources: {kinds: [Pod], namespaces: [victim]}}]}
    validate:
      failureAction: Enforce
      message: "t13-limits says no"
      pattern: {spec: {containers: [{resources: {limits: {cpu: "<=1"}}}]}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: t13-label}
spec:
  background: false
  rules:
  - name: label
    match: {any: [{resources: {kinds: [Pod], namespaces: [victim], operations: [UPDATE]}}]}
    mutate: {patchStrategicMerge: {metadata: {labels: {t13: "yes"}}}}
  - name: requests
    match: {any: [{resources: {kinds: [Pod], namespaces: [victim], operations: [UPDATE]}}]}
    mutate: {patchStrategicMerge: {spec: {containers: [{name: c, resources: {requests: {cpu: 150m}}}]}}}
`)
	resize := func(cpu string, flags ...string) (string, error) {
		return cluster.Try(t, "", append([]string{"patch", "pod", "t13", "-n", "victim", "--subresource=resize", "--dry-run=server",
			"-p", `{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"` + cpu + `"}}}]}}`}, flags...)...)
	}
	cluster.Must(t, "", "wait", "--for=condition=Ready", "clusterpolicy", "t13-limits", "t13-label")
	suite.Eventually(t, func() error {
		_, err := resize("4")
		if err == nil {
			return errors.New("a resize over the limit was admitted")
		}
		if !strings.Contains(err.Error(), "t13-limits says no") {
			return err
		}
		return nil
	})
	suite.Eventually(t, func() error {
		out, err := resize("800m", "-o", `jsonpath={.metadata.labels.t13} {.spec.containers[0].resources.requests.cpu}`)
		if err == nil && !strings.HasSuffix(strings.TrimRight(out, "\n"), " 150m") {
			err = errors.New("the policy did not change the resources: " + out)
		}
		return err
	})
	if _, err := resize("800m", "--warnings-as-errors"); err == nil || !strings.Contains(err.Error(), "t13-label") {
		t.Errorf("no warning of the change that is dropped: %v", err)
	}
}
