package observe

import (
	"net/http/httptest"
	"testing"
)

// Clients for background work count requests for policies' objects like Kyverno's dynamic client, and requests for our own kinds like its
// typed client.
func TestWorkQueries(t *testing.T) {
	for _, c := range []struct {
		method, path, accept string
		want                 query
	}{
		{"POST", "/api/v1/namespaces/a/configmaps", "", query{"create", "dynamic", "configmaps", "a"}},
		{"GET", "/api/v1/namespaces/a/secrets/x", "", query{"get", "dynamic", "secrets", "a"}},
		{"PUT", "/apis/kyverno.io/v2/namespaces/kyverno/updaterequests/x/status", "", query{"update_status", "kyverno", "UpdateRequest", "kyverno"}},
		{"GET", "/api/v1/configmaps", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", query{"list", "metadata", "ConfigMap", ""}},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		if c.accept != "" {
			r.Header.Set("Accept", c.accept)
		}
		if got, ok := queryOf(r, string(WorkClient)); !ok || got != c.want {
			t.Errorf("%s %s: %+v, want %+v", c.method, c.path, got, c.want)
		}
	}
}
