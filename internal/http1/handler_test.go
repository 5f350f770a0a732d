package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// echo answers with the request.
func echo(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/unread":
		http.Error(w, "too long, it seems", http.StatusRequestEntityTooLarge)
		return
	case "/last":
		w.Header().Set("Connection", "close")
	case "/empty":
		w.WriteHeader(http.StatusNoContent)
		return
	case "/split":
		w.Header().Set("Retry-After", "1\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK")
	case "/typed":
		w.Header().Set("Content-Type", "application/json")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "%s %s %q", r.Method, r.URL, body)
}

// serve serves h until the test ends. kept is the Handler, accepted counts the connections.
func serve(t testing.TB, h http.HandlerFunc, change func(*Handler)) (address string, kept *Handler, accepted *atomic.Int32) {
	t.Helper()
	return serveOn(t, listen(t), h, change)
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func serveOn(t testing.TB, l net.Listener, h http.HandlerFunc, change func(*Handler)) (address string, kept *Handler, accepted *atomic.Int32) {
	t.Helper()
	kept = &Handler{Handler: h, Idle: time.Minute, Read: time.Minute, Write: time.Minute}
	if change != nil {
		change(kept)
	}
	accepted = new(atomic.Int32)
	server := &http.Server{Handler: kept, ErrorLog: log.New(io.Discard, "", 0), ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			accepted.Add(1)
		}
	}}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = kept.Shutdown(ctx)
	})
	return l.Addr().String(), kept, accepted
}

// post returns the bytes of a request.
func post(path, body string, header ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n%s", path, len(body), strings.Join(append(header, ""), "\r\n"), body)
}

// A client keeps its connection, and the handler knows its address.
func TestOneConnection(t *testing.T) {
	var remote atomic.Value
	address, _, accepted := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if old := remote.Swap(r.RemoteAddr); old != nil && old != r.RemoteAddr {
			t.Errorf("from %v, then from %v", old, r.RemoteAddr)
		}
		if r.Context().Value(http.LocalAddrContextKey) == nil {
			t.Error("the context knows nothing of the server")
		}
		echo(w, r)
	}, nil)
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	defer client.CloseIdleConnections()
	for i := range 100 { // the first one, without a body, stays with net/http
		body := strings.Repeat("x", i*1000)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if i%10 == 5 {
			req.Header.Set("Expect", "100-continue")
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		if want := fmt.Sprintf("POST / %q", body); err != nil || string(got) != want {
			t.Fatalf("request %d: %v, %.80s", i, err, got)
		}
		res.Body.Close()
	}
	if n := accepted.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A handler that panics ends its own connection.
func TestPanic(t *testing.T) {
	address, kept, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic("of the test")
		}
		echo(w, r)
	}, nil)
	if got := say(t, address, post("/1", "one")+post("/panic", "two")+post("/3", "three")); strings.Count(got, "\n") != 1 {
		t.Errorf("got %s", got)
	}
	if got := say(t, address, post("/1", "one")); !strings.HasPrefix(got, "200 ") {
		t.Errorf("the next connection: %s", got)
	}
	if err := kept.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// A client that is too slow, before a request or within one, is disconnected.
func TestDeadlines(t *testing.T) {
	for name, sent := range map[string]string{"idle": post("/1", "one"), "header": post("/1", "one") + "POST /2 HT", "body": post("/1", "one") + "POST /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\ntwo", "first body": strings.TrimSuffix(post("/1", "one"), "e")} {
		t.Run(name, func(t *testing.T) {
			address, _, _ := serve(t, echo, func(h *Handler) { h.Idle, h.Read = 50*time.Millisecond, 50*time.Millisecond })
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, sent); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, conn); err != nil { // ends when the server closes
				t.Error(err)
			}
		})
	}
}

// Shutdown closes idle connections, lets active ones finish, and ends with ctx.
func TestShutdown(t *testing.T) {
	begun, goOn := make(chan struct{}, 2), make(chan struct{})
	address, kept, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			begun <- struct{}{}
			<-goOn
		}
		echo(w, r)
	}, nil)
	dial := func(sent string) (*bufio.Reader, net.Conn) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		return bufio.NewReader(conn), conn
	}
	idle, _ := dial(post("/1", "one"))
	if _, err := http.ReadResponse(idle, nil); err != nil {
		t.Fatal(err)
	}
	busy, _ := dial(post("/slow", "two"))
	<-begun

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	down := make(chan error, 1)
	go func() { down <- kept.Shutdown(t.Context()) }()
	if _, err := io.Copy(io.Discard, idle); err != nil && !errors.Is(err, io.EOF) {
		t.Errorf("the idle one: %v", err)
	}
	select {
	case err := <-down:
		t.Errorf("it ended before the handler: %v", err)
	default:
	}
	close(goOn)
	res, err := http.ReadResponse(busy, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if !res.Close || err != nil || !bytes.Equal(body, []byte(`POST /slow "two"`)) {
		t.Errorf("the busy one: %v %q %v", res.Close, body, err)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
	if err := kept.Shutdown(ctx); err != nil {
		t.Errorf("nothing is open: %v", err)
	}
	if got := say(t, address, post("/1", "one")+post("/2", "two")); strings.Count(got, "200 ") != 1 || !strings.Contains(got, "close:true") {
		t.Errorf("what comes after the end is answered, and no more: %s", got)
	}
}

// Shutdown does not exceed its deadline.
func TestShutdownDeadline(t *testing.T) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	address, kept, _ := serve(t, func(http.ResponseWriter, *http.Request) {
		close(begun)
		<-goOn
	}, nil)
	defer close(goOn)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, post("/1", "one")); err != nil {
		t.Fatal(err)
	}
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := kept.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A request allocates only its header and its response.
func BenchmarkConnection(b *testing.B) {
	for name, h := range map[string]http.Handler{"kept": &Handler{Handler: http.HandlerFunc(echo), Idle: time.Minute, Read: time.Minute, Write: time.Minute}, "net-http": http.HandlerFunc(echo)} {
		b.Run(name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			server := &http.Server{Handler: h}
			go func() { _ = server.Serve(l) }()
			defer server.Close()
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			request, reader := post("/typed", strings.Repeat("x", 4000)), bufio.NewReader(conn)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := io.WriteString(conn, request); err != nil {
					b.Fatal(err)
				}
				res, err := http.ReadResponse(reader, nil)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
			}
		})
	}
}
