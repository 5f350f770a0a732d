package store

import (
	"io"
	"net"
	"sync"
	"testing"
)

// vanishing forwards connections to a server. After vanish, nothing arrives on the connections of before, and neither end
// notices it.
type vanishing struct {
	mu    sync.Mutex
	conns []*silent
}

// silent is a connection on which nothing arrives any more, once it is cut.
type silent struct {
	net.Conn
	cut chan struct{}
}

func (s *silent) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	select {
	case <-s.cut:
		select {} // until the process ends
	default:
		return n, err
	}
}

func (v *vanishing) vanish() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.conns {
		close(c.cut)
	}
	v.conns = nil
}

// listen forwards the connections to an address, and returns the address.
func (v *vanishing) listen(t *testing.T, network, address, to string) string {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial(network, to)
			if err != nil {
				_ = in.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
				from := &silent{way[0], make(chan struct{})}
				v.mu.Lock()
				v.conns = append(v.conns, from)
				v.mu.Unlock()
				go func() {
					_, _ = io.Copy(way[1], from)
					_ = way[1].Close()
				}()
			}
		}
	}()
	return l.Addr().String()
}
