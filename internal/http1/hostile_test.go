package http1

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Each request has the TLS state of its own connection, the first and all later ones, whatever other clients are connected.
func TestCertificateOfTheConnection(t *testing.T) {
	kept := &Handler{Idle: time.Minute, Read: time.Minute, Write: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if len(r.TLS.PeerCertificates) == 0 {
			_, _ = io.WriteString(w, "nobody")
			return
		}
		_, _ = w.Write(r.TLS.PeerCertificates[0].Raw)
	})}
	server := httptest.NewUnstartedServer(kept)
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, NextProtos: []string{"http/1.1"}}
	server.StartTLS()
	defer server.Close()
	defer kept.Shutdown(t.Context())
	authority := x509.NewCertPool()
	authority.AddCert(server.Certificate())
	own := server.TLS.Certificates[0]
	dial := func(with ...tls.Certificate) *bufio.ReadWriter {
		conn, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{RootCAs: authority, ServerName: "example.com", Certificates: with})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn))
	}
	somebody, nobody := dial(own), dial()
	for range 20 {
		for client, want := range map[*bufio.ReadWriter]string{somebody: string(own.Certificate[0]), nobody: "nobody"} {
			_, _ = client.WriteString(post("/", "x"))
			if err := client.Flush(); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(client.Reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(res.Body); err != nil || string(got) != want {
				t.Fatalf("%.20q, %v, want %.20q", got, err, want)
			}
		}
	}
}

// A client that sends a long body receives the early answer, and not a reset connection.
func TestRefusalArrives(t *testing.T) {
	address, _, _ := serve(t, echo, func(h *Handler) { h.linger = time.Minute }) // a busy machine needs more than half a second for 4 MB
	for _, first := range []string{"", post("/1", "one")} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, first+post("/unread", strings.Repeat("x", 4<<20))); err != nil {
			t.Fatalf("the server did not listen: %v", err)
		}
		reader := bufio.NewReader(conn)
		for _, want := range []int{http.StatusOK, http.StatusRequestEntityTooLarge}[1-min(len(first), 1):] {
			res, err := http.ReadResponse(reader, nil)
			if err != nil || res.StatusCode != want {
				t.Fatalf("%v, %v", res, err)
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// pipeListener accepts the connections that a test sends to it.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l pipeListener) Close() error   { return nil }
func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// A request with Expect: 100-continue gets its answer however long the connection was idle: no deadline of an earlier response remains.
func TestExpectationAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &Handler{Handler: http.HandlerFunc(echo), Idle: time.Hour, Read: time.Minute, Write: time.Second}
		l, server := make(pipeListener), &http.Server{Handler: kept}
		go func() { _ = server.Serve(l) }()
		client, conn := net.Pipe()
		l <- conn
		reader := bufio.NewReader(client)
		ask := func(sent string, want int) {
			t.Helper()
			go func() { _, _ = io.WriteString(client, sent) }()
			res, err := http.ReadResponse(reader, nil)
			if err != nil || res.StatusCode != want {
				t.Fatalf("%v, %v, want %d", res, err, want)
			}
			_, _ = io.Copy(io.Discard, res.Body)
		}
		ask(post("/1", "one"), http.StatusOK)
		time.Sleep(time.Minute)
		ask(strings.TrimSuffix(post("/2", "two", "Expect: 100-continue"), "two"), http.StatusContinue)
		ask("two", http.StatusOK)
		if err := kept.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		client.Close()
		close(l)
	})
}

// Ended connections leave no state, however they ended.
func TestNothingIsLeft(t *testing.T) {
	address, kept, _ := serve(t, echo, func(h *Handler) { h.Read = 20 * time.Millisecond })
	before := runtime.NumGoroutine()
	for i := range 300 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		sent := conversations[i%len(conversations)].sent
		if len(sent) > 10_000 {
			sent = sent[:10_000]
		}
		_, _ = io.WriteString(conn, sent)
		if i%3 == 0 {
			_, _ = conn.Read(make([]byte, 1))
		}
		if i%7 == 0 {
			_ = conn.(*net.TCPConn).SetLinger(0) // a reset
		}
		conn.Close()
	}
	for kept.inUse() > 0 || runtime.NumGoroutine() > before+5 {
		runtime.Gosched()
		if t.Context().Err() != nil {
			t.Fatal(errors.New("connections are left"))
		}
	}
	if err := kept.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func (h *Handler) inUse() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.taken)
}

// A client that does not read delays Shutdown for no other client.
func TestShutdownWithClientsThatReadNothing(t *testing.T) {
	address, kept, _ := serve(t, echo, nil)
	for range 20 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, strings.Repeat(post("/1", "one"), 100)); err != nil {
			t.Fatal(err)
		}
	}
	if err := kept.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
