package admission

import (
	"bytes"
	"context"
	"crypto/tls"
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

// reviewer sends reviews on one connection, as an API server does, and counts its connections.
func reviewer(t *testing.T, address string, config *tls.Config) (ask func(), dials *atomic.Int32) {
	t.Helper()
	dials = new(atomic.Int32)
	transport := &http.Transport{TLSClientConfig: config.Clone(), MaxConnsPerHost: 1, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	return func() {
		t.Helper()
		res, err := client.Post("https://"+address+"/validate/fail", "application/json", bytes.NewReader(configMap("")))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(text), `"allowed":false`) {
			t.Fatalf("%d %s %v", res.StatusCode, text, err)
		}
	}, dials
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
	ask, dials := reviewer(t, address, config)
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
	if n := dials.Load(); n != 1 {
		t.Errorf("the client that sent reviews needed %d connections", n)
	}
}

// T7: connections without a header, with and without a handshake, are closed to make room and end after a few seconds; a client that sent a
// review keeps its connection.
func TestT7SlowConnections(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil, enforced("Fail"))
	address, config := onTLS(t, srv)
	ask, dials := reviewer(t, address, config)
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
	if n := dials.Load(); n != 1 {
		t.Errorf("the client that sent reviews needed %d connections", n)
	}
}
