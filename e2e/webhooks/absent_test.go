package webhooks

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
)

// A replica that ends because its Deployment was scaled to zero or deleted removes the configurations, since no replica would answer. One
// that is replaced keeps them, and so does one without a Deployment.
func TestConfigurationsAfterTheLastReplica(t *testing.T) {
	cluster.Apply(t, refusing("gone", "ConfigMap", "", ""))
	deployment := func(replicas int) {
		cluster.Apply(t, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: kyverno-admission-controller, namespace: %s}
spec:
  paused: true # no Pods
  replicas: %d
  selector: {matchLabels: {app: none}}
  template:
    metadata: {labels: {app: none}}
    spec: {containers: [{name: none, image: none}]}
`, namespace, replicas))
	}
	for _, c := range []struct {
		name   string
		before int // replicas; -1 for no Deployment
		change func()
		left   bool
		says   string
	}{
		{"no Deployment", -1, func() {}, true, ""},
		{"replaced", 2, func() {}, true, ""},
		{"scaled to zero", 1, func() {
			cluster.Must(t, "", "scale", "deployment", "kyverno-admission-controller", "-n", namespace, "--replicas=0")
		}, false, "it has no replicas"},
		{"deleted", 1, func() { cluster.Must(t, "", "delete", "deployment", "kyverno-admission-controller", "-n", namespace) }, false, "it was deleted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.before >= 0 {
				deployment(c.before)
			}
			r := start(t)
			ready(t, "clusterpolicy", "gone")
			answers(t, configMap("default", "a"), "the policy gone says no")
			c.change()
			suite.Stop(t, r)
			if left := stored(t); len(left) > 0 != c.left {
				t.Errorf("%v are left", left)
			}
			if !c.left {
				if err := create(t, configMap("default", "a")); err != nil {
					t.Error(err)
				}
			}
			if tail := r.Tail(50); c.says != "" && !strings.Contains(tail, c.says) || c.says == "" && strings.Contains(tail, "no replica will answer") {
				t.Errorf("the log ends with\n%s", tail)
			}
		})
	}
}
