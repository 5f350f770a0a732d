package admission

import (
	"net"
	"testing"
)

// A server whose listener fails ends its audits, too.
func TestAuditsEndWithTheListener(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := srv.Run(t.Context(), l, nil); err == nil {
		t.Error("a listener that is closed is no error")
	}
	if !srv.audits.closed {
		t.Error("the audits go on")
	}
}
