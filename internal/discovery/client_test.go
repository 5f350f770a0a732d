package discovery_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	ours "ephor.invalid/ephor/internal/discovery"
)

// silent answers no request.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &http.Client{Transport: silent{}}
		client, err := discovery.NewDiscoveryClientForConfigAndClient(&rest.Config{}, ours.Limited(shared))
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if _, err := ours.Fetch(client); err == nil {
			t.Error("a list without an answer")
		}
		if took := time.Since(begun); took > 2*time.Minute {
			t.Errorf("discovery that is never answered ends after %v", took)
		}
		if shared.Timeout != 0 {
			t.Errorf("watches end after %v", shared.Timeout)
		}
	})
}
