package admission

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/policyreview"
	"ephor.invalid/ephor/internal/world"
)

// The cleanup controller reviews cleanup policies: mistakes, kinds, and the rights to delete.
func TestCleanupReview(t *testing.T) {
	const (
		cleanup    = "system:serviceaccount:kyverno:cleanup"
		cluster    = `{apiVersion: kyverno.io/v2, kind: ClusterCleanupPolicy, metadata: {name: p}, spec: {schedule: "* * * * *", match: {any: [{resources: {kinds: [KIND]}}]}}}`
		namespaced = `{apiVersion: kyverno.io/v2, kind: CleanupPolicy, metadata: {name: p, namespace: a}, spec: {schedule: "* * * * *", match: {any: [{resources: {kinds: [KIND]}}]}}}`
	)
	all := cleanup + " * * *"
	for _, c := range []struct {
		name, policy, old string
		granted           grantedTo
		want, warning     string
	}{
		{"all rights", strings.Replace(cluster, "KIND", "Pod", 1), "", grantedTo{all}, "", ""},
		{"no right to delete", strings.Replace(cluster, "KIND", "Pod", 1), "", grantedTo{cleanup + " list pods *"}, "cleanup controller has no permission to delete kind Pod", ""},
		{"no right to list", strings.Replace(cluster, "KIND", "Pod", 1), "", grantedTo{cleanup + " delete pods *"}, "cleanup controller has no permission to list kind Pod", ""},
		{"rights on the named object", strings.Replace(cluster, "KIND]", "Pod], names: [one]", 1), "", grantedTo{cleanup + " delete,list pods * one"}, "", ""},
		{"rights on one of two named objects", strings.Replace(cluster, "KIND]", "Pod], names: [one, two]", 1), "", grantedTo{cleanup + " delete,list pods * one"}, "cleanup controller has no permission to delete kind Pod", ""},
		{"rights on one object of a wildcard", strings.Replace(cluster, "KIND]", "Pod], names: [o*]", 1), "", grantedTo{cleanup + " delete,list pods * one"}, "cleanup controller has no permission to delete kind Pod", ""},
		{"rights on one object of all", strings.Replace(cluster, "KIND", "Pod", 1), "", grantedTo{cleanup + " delete,list pods * one"}, "cleanup controller has no permission to delete kind Pod", ""},
		{"an author with rights on the named object", strings.Replace(namespaced, "KIND]", "Pod], names: [one]", 1), "", grantedTo{all, "jane delete,list pods a one"}, "", ""},
		{"a wildcard", strings.Replace(cluster, "KIND", `"*"`, 1), "", grantedTo{cleanup + " delete,list pods *"}, "cleanup controller has no permission to delete kind *", ""},
		{"a schedule", strings.Replace(strings.Replace(cluster, "KIND", "Pod", 1), "* * * * *", "often", 1), "", grantedTo{all}, "schedule spec in the cleanupPolicy is not in proper cron format", ""},
		{"an unknown kind", strings.Replace(cluster, "KIND", "Strange", 1), "", grantedTo{all}, "", "the kind defined in the all match resource is invalid: unable to convert GVK to GVR for kinds Strange"},
		{"a cluster-wide kind", strings.Replace(namespaced, "KIND", "Node", 1), "", grantedTo{all, "jane * * a"}, "Cluster wide resource 'Node' not allowed in namespaced policy", ""},
		{"an author without rights", strings.Replace(namespaced, "KIND", "Pod", 1), "", grantedTo{all, "jane delete,list pods b"}, "the author of the policy 'jane' has no permission to delete kind Pod", ""},
		{"an author with rights", strings.Replace(namespaced, "KIND", "Pod", 1), "", grantedTo{all, "jane delete,list pods a"}, "", ""},
		{"an unknown kind in a namespace", strings.Replace(namespaced, "KIND", "example.com/v1/Strange", 1), "", grantedTo{all, "jane delete,list pods a"}, "the author of the policy 'jane' has no permission to delete kind Strange", ""},
		{"a user who may delete all kinds", strings.Replace(namespaced, "KIND", "Strange", 1), "", grantedTo{all, "jane delete,list * a"}, "", "the kind defined in the all match resource is invalid: unable to convert GVK to GVR for kinds Strange"},
		{"the same spec", strings.Replace(namespaced, "KIND", "Pod", 1), strings.Replace(namespaced, "KIND", "Pod", 1), nil, "", ""},
	} {
		srv := NewCleanup(Options{
			Timeout: time.Second, Review: policyreview.Options{Accounts: policyreview.Accounts{Cleanup: cleanup}}, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		}, world.RootFunc(func(world.Reach) world.World { return world.World{Access: c.granted} }),
			fakeCluster{kinds: map[string]string{"pods": "Pod"}, clusterish: []string{"Node"}}, func() error { return nil })
		srv.Open()
		code, res := postReview(t, srv, "/validate", reviewOf(t, c.policy, c.old, "jane"))
		got := ""
		if !res.Allowed {
			got, _, _ = strings.Cut(res.Result.Message, "\n")
		}
		if code != 200 || got != c.want || strings.Join(res.Warnings, "; ") != c.warning {
			t.Errorf("%s: %d %q %q, want %q %q", c.name, code, got, res.Warnings, c.want, c.warning)
		}
	}
}
