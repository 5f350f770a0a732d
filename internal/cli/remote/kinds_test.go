package remote

import (
	"testing"

	"ephor.invalid/ephor/internal/discovery/discoverytest"
	"ephor.invalid/ephor/internal/policy"
)

// A query whose kinds may belong to a group that cannot be listed says so. Other queries are complete.
func TestKindsOfAGroupThatCannotBeListed(t *testing.T) {
	served, err := servedBy(discoverytest.Broken{Served: discoverytest.Cluster})
	if err != nil {
		t.Fatal(err)
	}
	const reason = "unable to retrieve the complete list of server APIs: metrics.k8s.io/v1: no endpoints"
	for _, c := range []struct {
		target policy.Target
		want   string
	}{
		{policy.Target{Version: "v1", Kind: "Pod"}, ""},
		{policy.Target{Group: "*", Version: "*", Kind: "Deployment"}, ""},
		{policy.Target{Group: "apps", Version: "*", Kind: "*"}, ""},
		{policy.Target{Group: "example.com", Version: "*", Kind: "Widget"}, ""},
		{policy.Target{Group: "*", Version: "*", Kind: "*"}, reason},
		{policy.Target{Group: "*", Version: "*", Kind: "PodMetrics"}, reason},
		{policy.Target{Group: "metrics.k8s.io", Version: "v1", Kind: "PodMetrics"}, reason},
	} {
		rule := &policy.Rule{Matching: policy.Matching{Targets: []policy.Target{{Version: "v1", Kind: "ConfigMap"}, c.target}}}
		_, unlisted := served.All([]*policy.Program{{Rules: []*policy.Rule{rule}}})
		got := ""
		if unlisted != nil {
			got = unlisted.Error()
		}
		if got != c.want {
			t.Errorf("%v: %q, want %q", c.target, got, c.want)
		}
		n := 0
		(&Cluster{}).List(t.Context(), Query{Unlisted: unlisted}, func(p Page) {
			if p.Err != nil {
				n++
			}
		})
		if (n == 1) != (c.want != "") {
			t.Errorf("%v: %d errors in the list", c.target, n)
		}
	}
}
