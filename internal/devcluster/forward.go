package devcluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Backend is a process behind a Service.
type Backend struct {
	Addr string // host:port
	// Ready is the path of an HTTPS readiness probe, such as /health/readiness; a backend that does not answer it with 200 gets no
	// connections. If it is empty, every backend that accepts connections is ready.
	Ready string
}

// Forwarder replaces kube-proxy: it listens on a Service's ClusterIP and distributes connections over the ready processes behind
// it.
type Forwarder struct {
	listener net.Listener
	client   *http.Client
	stop     context.CancelFunc

	probing sync.Mutex     // held by probeAll, so that an older result never replaces a newer one
	late    map[string]int // consecutive probes without an answer in time, by address; guarded by probing

	mu       sync.Mutex
	backends []Backend
	ready    map[string]bool
	next     int
}

// Forward serves the Service's ClusterIP on its first port. The Service must exist.
func (c *Cluster) Forward(ctx context.Context, namespace, service string, backends ...Backend) (*Forwarder, error) {
	addr, err := c.Kubectl(ctx, nil, "get", "service", service, "-n", namespace,
		"-o", "jsonpath={.spec.clusterIP}:{.spec.ports[0].port}")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", strings.TrimSpace(addr))
	if err != nil {
		return nil, fmt.Errorf("listen on the ClusterIP of service %s/%s: %w", namespace, service, err)
	}
	probing, stop := context.WithCancel(context.Background())
	f := &Forwarder{
		listener: l, stop: stop, backends: backends, ready: map[string]bool{}, late: map[string]int{},
		client: &http.Client{Timeout: time.Second, Transport: &http.Transport{
			// A probe like the kubelet's, but five times a second. It keeps its connection, since handshakes would distort load
			// tests.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		}},
	}
	c.forwarders = append(c.forwarders, f)
	f.probeAll()
	go f.probeLoop(probing)
	go f.accept()
	return f, nil
}

// Set replaces the processes behind the Service. Open connections are not affected.
func (f *Forwarder) Set(backends ...Backend) {
	f.mu.Lock()
	f.backends = backends
	f.mu.Unlock()
	f.probeAll()
}

// Close stops listening.
func (f *Forwarder) Close() {
	f.stop()
	f.listener.Close()
}

func (f *Forwarder) probeLoop(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.probeAll()
		}
	}
}

// mostLate is the number of consecutive late answers that a ready process may give. On a busy machine a single one is not a sign of
// an outage: the kubelet has such a threshold, too.
const mostLate = 2

func (f *Forwarder) probeAll() {
	f.probing.Lock()
	defer f.probing.Unlock()
	f.mu.Lock()
	backends, before := slices.Clone(f.backends), f.ready
	f.mu.Unlock()
	ready := map[string]bool{}
	for _, b := range backends {
		err := f.checkReady(b)
		if late := net.Error(nil); errors.As(err, &late) && late.Timeout() {
			f.late[b.Addr]++
		} else {
			f.late[b.Addr] = 0
		}
		ready[b.Addr] = err == nil || before[b.Addr] && f.late[b.Addr] > 0 && f.late[b.Addr] <= mostLate
	}
	f.mu.Lock()
	f.ready = ready
	f.mu.Unlock()
}

// probe reports whether a process is ready.
func (f *Forwarder) probe(b Backend) bool { return f.checkReady(b) == nil }

// checkReady returns an error unless a process is ready.
func (f *Forwarder) checkReady(b Backend) error {
	if b.Ready == "" {
		return nil
	}
	resp, err := f.client.Get("https://" + b.Addr + b.Ready)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

func (f *Forwarder) accept() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		go f.serve(conn)
	}
}

// order returns the addresses to try: the ready ones, beginning with a different one each time.
func (f *Forwarder) order() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var addrs []string
	for i := range f.backends {
		b := f.backends[(i+f.next)%len(f.backends)]
		if f.ready[b.Addr] {
			addrs = append(addrs, b.Addr)
		}
	}
	f.next++
	return addrs
}

func (f *Forwarder) serve(client net.Conn) {
	defer client.Close()
	for _, addr := range f.order() {
		server, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			continue // the connection was refused: try another one
		}
		pipe(client, server)
		return
	}
	// No process is ready: the connection is closed, as behind a Service without endpoints.
}

func pipe(a, b net.Conn) {
	defer b.Close()
	done := make(chan struct{}, 2)
	relay := func(dst, src net.Conn) {
		io.Copy(dst, src)
		if t, ok := dst.(*net.TCPConn); ok {
			t.CloseWrite()
		}
		done <- struct{}{}
	}
	go relay(a, b)
	go relay(b, a)
	<-done
	<-done
}
