package apicall

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
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
