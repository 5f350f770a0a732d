package http1

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

// fromListener returns connections with sources that a test chooses.
type fromListener struct {
	pipeListener
	from chan string
}

type fromConn struct {
	net.Conn
	from string
}

func (c fromConn) RemoteAddr() net.Addr { a, _ := net.ResolveTCPAddr("tcp", c.from); return a }

func (l fromListener) Accept() (net.Conn, error) {
	conn, err := l.pipeListener.Accept()
	if err != nil {
		return nil, err
	}
	return fromConn{conn, <-l.from}, nil
}

// T7: the source that holds the most loses its oldest connection; a connection that was proved is never ended for others.
func TestT7EvictionOfConnections(t *testing.T) {
	l := fromListener{make(pipeListener, 1), make(chan string, 1)}
	bound := Bound(l, Limits{Connections: 4, Bytes: 5 * perConnection})
	accept := func(from string) (client net.Conn, b *bounded) {
		client, server := net.Pipe()
		t.Cleanup(func() { client.Close() })
		l.pipeListener <- server
		l.from <- from
		conn, err := bound.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return client, conn.(*bounded)
	}
	open := func(b *bounded) bool {
		if b.place == nil && !b.free.Load() {
			return false
		}
		_ = b.SetReadDeadline(time.Unix(1, 0))
		_, err := b.Conn.Read(make([]byte, 1))
		late, ok := err.(net.Error)
		return ok && late.Timeout()
	}
	_, server := accept("10.0.0.1:1")
	server.release()
	_, first := accept("10.0.0.2:1")
	_, second := accept("10.0.0.2:2")
	_, third := accept("[2001:db8::1]:1")
	_, fourth := accept("[2001:db8::2]:1") // the same network as the one before
	_, fifth := accept("10.0.0.3:1")
	for name, c := range map[string]struct {
		b    *bounded
		want bool
	}{"proved": {server, true}, "the oldest of two sources with as many": {first, false}, "its second": {second, true}, "v6": {third, true}, "v6 again": {fourth, true}, "the newest": {fifth, true}} {
		if got := open(c.b); got != c.want {
			t.Errorf("%s: open %t, want %t", name, got, c.want)
		}
	}
	// Held bytes count as well: the source that sends the most makes room, although others have more connections.
	client, greedy := accept("10.0.0.4:1")
	for open(third) { // the fifth connection: v6 had two
		t.Fatal("the source with the most connections kept its oldest one")
	}
	go func() { _, _ = client.Write(make([]byte, 2*perConnection)) }()
	buf := make([]byte, 2*perConnection)
	_ = greedy.SetReadDeadline(time.Time{})
	if n, err := io.ReadFull(greedy, buf); err != nil {
		if open(greedy) {
			t.Errorf("read %d, %v", n, err)
		}
	}
	if open(greedy) || !open(second) || !open(fourth) || !open(fifth) || !open(server) {
		t.Errorf("open: greedy %t, others %t %t %t, proved %t", open(greedy), open(second), open(fourth), open(fifth), open(server))
	}
}

// Proved marks the connection of the request, and ended connections leave no state.
func TestT7Proved(t *testing.T) {
	inner := listen(t)
	bound := Bound(inner, Limits{Connections: 2}).(*boundListener)
	kept := &Handler{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/proved" {
			Proved(r)
		}
		echo(w, r)
	}), Idle: time.Minute, Read: time.Minute, Write: time.Minute}
	server := Harden(&http.Server{Handler: kept})
	go func() { _ = server.Serve(bound) }()
	defer func() { _ = kept.Shutdown(t.Context()) }()
	defer server.Close()
	dial := func() (ask func(path string) error) {
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		reader := bufio.NewReader(conn)
		return func(path string) error {
			if _, err := io.WriteString(conn, post(path, "x")); err != nil {
				return err
			}
			res, err := http.ReadResponse(reader, nil)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, res.Body)
			return err
		}
	}
	proved := dial()
	if err := proved("/proved"); err != nil {
		t.Fatal(err)
	}
	var others []func(string) error
	for range 5 {
		ask := dial()
		if err := ask("/other"); err != nil {
			t.Fatal(err)
		}
		others = append(others, ask)
	}
	for i, ask := range others {
		if err := ask("/other"); (err == nil) != (i >= 3) {
			t.Errorf("connection %d of 5: %v", i, err)
		}
	}
	if err := proved("/other"); err != nil {
		t.Errorf("the proved connection: %v", err)
	}
	_ = server.Close()
	_ = kept.Shutdown(t.Context())
	bound.mu.Lock()
	defer bound.mu.Unlock()
	if bound.count != 0 || bound.bytes != 0 || len(bound.sources) != 0 {
		t.Errorf("left are %d connections, %d bytes, %d sources", bound.count, bound.bytes, len(bound.sources))
	}
}

// A connection of Bound behaves like any other.
func TestT7Connections(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		l := listen(t)
		bound := Bound(l, Limits{Bytes: 1 << 30})
		if c2, err = net.Dial("tcp", l.Addr().String()); err != nil {
			return nil, nil, nil, err
		}
		if c1, err = bound.Accept(); err != nil {
			return nil, nil, nil, err
		}
		return c1, c2, func() { c1.Close(); c2.Close(); bound.Close() }, nil
	})
}
