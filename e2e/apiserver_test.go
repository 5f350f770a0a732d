package e2e

import (
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/simulation/apiserver"
)

// The simulation's API server answers requests with the same status as a real one.
func TestSimulatedAnswers(t *testing.T) {
	client, err := rest.HTTPClientFor(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range apiserver.Steps {
		if err := x.Send(t.Context(), client, cluster.Config.Host); err != nil {
			t.Error(err)
		}
	}
	eventually(t, func() error {
		gone := apiserver.Step{Name: "the namespace is gone", Method: http.MethodGet, Path: "/api/v1/namespaces/comparison", Code: http.StatusNotFound}
		return gone.Send(t.Context(), client, cluster.Config.Host)
	})
}
