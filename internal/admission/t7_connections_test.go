package admission

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// onTLS serves a Server on loopback, and returns its address and a client configuration.
func onTLS(t *testing.T, srv *Server) (address string, client *tls.Config) {
	t.Helper()
	other := httptest.NewTLSServer(http.NotFoundHandler())
	own := other.TLS.Certificates[0]
	other.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- srv.Run(ctx, l, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &own, nil })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}} //nolint:gosec // loopback
}

// reviewer sends reviews on one connection, as an API server does. It does not use net/http's client, which gives a connection up if its own
// goroutine that writes is not scheduled for 50 ms.
func reviewer(t *testing.T, address string, config *tls.Config) (ask func()) {
	t.Helper()
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	reader, body := bufio.NewReader(conn), configMap("")
	return func() {
		t.Helper()
		fmt.Fprintf(conn, "POST /validate/fail HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		res, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("the connection of the client that sent reviews: %v", err)
		}
		defer res.Body.Close()
		if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK || res.Close || !strings.Contains(string(text), `"allowed":false`) {
			t.Fatalf("%d %s %v", res.StatusCode, text, err)
		}
	}
}

func heapMB() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse+m.StackInuse) / (1 << 20)
}

// T7: clients that never finish a header of 1 MB hold little memory, and a client that sent a review keeps its connection meanwhile.
func TestT7UnfinishedHeaders(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil, enforced("Fail"))
	address, config := onTLS(t, srv)
	ask := reviewer(t, address, config)
	ask()
	before := heapMB()
	header := "POST /validate/fail HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-Long: "+strings.Repeat("x", 1000)+"\r\n", 1000)
	var wg sync.WaitGroup
	for range 150 {
		wg.Go(func() {
			conn, err := tls.Dial("tcp", address, config)
			if err != nil {
				return // the server closed it to make room
			}
			t.Cleanup(func() { conn.Close() })
			_, _ = io.WriteString(conn, header)
		})
	}
	wg.Wait()
	ask()
	grown := heapMB() - before
	t.Logf("150 unfinished headers of 1 MB hold %.1f MB, the clients included", grown)
	if grown > 48 {
		t.Errorf("150 unfinished headers of 1 MB hold %.1f MB", grown)
	}
}

// T7: connections without a header, with and without a handshake, are closed to make room and end after a few seconds; a client that sent a
// review keeps its connection.
func TestT7SlowConnections(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil, enforced("Fail"))
	address, config := onTLS(t, srv)
	ask := reviewer(t, address, config)
	ask()
	const slow, most, patience = 900, 300, 5 * time.Minute // on a busy machine the handshakes take most of the time
	var open atomic.Int32
	begin := time.Now()
	for i := range slow {
		raw, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { raw.Close() })
		open.Add(1)
		go func() {
			defer open.Add(-1)
			conn := raw
			if i%3 == 0 {
				over := tls.Client(raw, config)
				if over.Handshake() != nil {
					return
				}
				conn = over
				_, _ = io.WriteString(conn, "POST /validate/fail HTTP/1.1\r\nHost: x\r\nX-Slow: ")
			}
			_, _ = conn.Read(make([]byte, 1)) // until the server ends it
		}()
		if i%100 == 0 {
			ask()
		}
	}
	for open.Load() > most && time.Since(begin) < patience {
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%d of %d are open after %s", open.Load(), slow, time.Since(begin))
	ask()
	for open.Load() > 0 && time.Since(begin) < patience {
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%d of %d are open after %s", open.Load(), slow, time.Since(begin))
	if n := open.Load(); n > 0 {
		t.Errorf("%d slow connections are open after %s", n, time.Since(begin))
	}
	ask()
}
