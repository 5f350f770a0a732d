package admission

import (
	"context"
	"strings"
	"testing"
)

// TestT23ReviewsOfANamespace: while a policy of a namespace is reviewed, another one of the namespace, even in a dry run, waits and is then refused
// with a text that says so. Policies of other namespaces and of the cluster are reviewed.
func TestT23ReviewsOfANamespace(t *testing.T) {
	review := func(namespace string) []byte {
		kind, resource := "Policy", "policies"
		if namespace == "" {
			kind, resource = "ClusterPolicy", "clusterpolicies"
		}
		return []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","dryRun":true,"namespace":"` + namespace + `",` +
			`"kind":{"group":"kyverno.io","version":"v1","kind":"` + kind + `"},"resource":{"group":"kyverno.io","version":"v1","resource":"` + resource + `"},` +
			`"userInfo":{},"object":{"apiVersion":"kyverno.io/v1","kind":"` + kind + `","metadata":{"name":"p","namespace":"` + namespace + `"},"spec":{"rules":[{"name":"r",` +
			`"match":{"any":[{"resources":{"kinds":["ConfigMap"]}}]},"validate":{"message":"m","pattern":{"data":{"a":"b"}}}}]}}}}`)
	}
	srv, _ := setup(t, fakeCluster{}, nil)
	done, err := srv.shares.Turn(context.Background(), "team-a", 0)
	if err != nil {
		t.Fatal(err)
	}
	_, res := postReview(t, srv, "/policyvalidate?timeout=20ms", review("team-a"))
	if res.Allowed || !strings.Contains(res.Result.Message, "namespace team-a") {
		t.Errorf("a second review in the namespace: %+v", res)
	}
	for _, other := range []string{"team-b", ""} {
		if _, res := postReview(t, srv, "/policyvalidate", review(other)); !res.Allowed {
			t.Errorf("a review in namespace %q: %+v", other, res)
		}
	}
	done()
	if _, res := postReview(t, srv, "/policyvalidate", review("team-a")); !res.Allowed {
		t.Errorf("a review afterwards: %+v", res)
	}
}
