package apicall

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ephor.invalid/ephor/internal/world"
)

// An address that does not answer does not take the time of the others.
func TestDialOfSilentAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := NewServices(ServiceOptions{Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("192.0.2.1")}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		near, far := net.Pipe()
		defer far.Close()
		s.dial = func(ctx context.Context, _, address string) (net.Conn, error) {
			if address == "192.0.2.1:443" {
				return near, ctx.Err()
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		for _, timeout := range []time.Duration{time.Second, time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			conn, err := s.Dial(ctx, "tcp", "registry.example:443")
			if conn != near || err != nil {
				t.Errorf("within %s: %v", timeout, err)
			}
			cancel()
		}
		began := time.Now()
		if _, err := s.Dial(context.Background(), "tcp", "[2001:db8::2]:443"); err == nil || time.Since(began) != dialTimeout {
			t.Errorf("without a deadline: %v after %s", err, time.Since(began))
		}
	})
}

// Row S11 of docs/security/threat-model.md: a host name on the blocklist is not reached either where only connections are checked, as those to
// registries, or in letters that the HTTP client converts to the listed ones.
func TestS11BlockedNames(t *testing.T) {
	var looked []string
	s := newServices(t, ServiceOptions{Block: []string{"vault.internal", "*.corp.example"}, Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
		looked = append(looked, host)
		return nil, nil
	}})
	registries := &http.Transport{}
	s.Via(nil, registries)
	for _, host := range []string{"vault.internal", "VAULT.internal.", "a.corp.example", "ｖault.internal", "a.ｃorp.example", "a.corp。example"} {
		if _, err := s.Call(t.Context(), world.ServiceRequest{Method: http.MethodGet, URL: "http://" + host + "/"}); err == nil || !strings.Contains(err.Error(), "the blocklist") {
			t.Errorf("a service at %s: %v", host, err)
		}
		if _, err := (&http.Client{Transport: registries}).Get("http://" + host + "/v2/"); err == nil || !strings.Contains(err.Error(), "the blocklist") {
			t.Errorf("a registry at %s: %v", host, err)
		}
	}
	if len(looked) > 0 {
		t.Errorf("names were looked up: %v", looked)
	}
}
