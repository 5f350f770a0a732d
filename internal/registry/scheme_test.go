package registry

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/world"
)

// A registry that gets TLS is used with TLS some time later, not only after a restart.
func TestRegistryGetsTLS(t *testing.T) {
	answers := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil {
			w.Header().Set("Plain", "true")
		}
	})
	plain, secure := httptest.NewServer(answers), httptest.NewTLSServer(answers)
	defer plain.Close()
	defer secure.Close()
	at := plain.Listener.Addr().String()
	client, err := New(Options{Insecure: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, at)
	}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	client.schemes.Now = func() time.Time { return now }
	for _, step := range []struct {
		at    string
		after time.Duration
		plain string // the header of the answer
	}{
		{at, 0, "true"},
		{at, schemeLives - 1, "true"},
		{secure.Listener.Addr().String(), 1, ""},
	} {
		at, now = step.at, now.Add(step.after)
		client.insecure.CloseIdleConnections()
		s, err := client.Open(t.Context(), Ask{Image: world.ImageRequest{Reference: "registry.example/app:1"}})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := s.Fetch(t.Context(), Fetch{Repository: s.Image.Context(), Path: "manifests/1"})
		if s.Close(); err != nil || answer.Header.Get("Plain") != step.plain {
			t.Errorf("%+v: %v, %v", step, answer, err)
		}
	}
}
