package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// network connects the API server with the servers of the replicas, without sockets.
type network struct {
	mu        sync.Mutex
	random    *rand.Rand
	listeners map[string][]*listener // by Service
}

// listener is the port of one replica.
type listener struct {
	network *network
	service string
	conns   chan net.Conn
	once    sync.Once
	closed  chan struct{}

	mu   sync.Mutex
	open []net.Conn // that were accepted
}

// listen opens the port of a replica behind a Service.
func (n *network) listen(service string) *listener {
	l := &listener{network: n, service: service, conns: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[service] = append(n.listeners[service], l)
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open = append(l.open, c)
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// crash closes the port and its connections, as the end of a process does.
func (l *listener) crash() {
	_ = l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		_ = c.Close()
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		n := l.network
		n.mu.Lock()
		defer n.mu.Unlock()
		for i, o := range n.listeners[l.service] {
			if o == l {
				n.listeners[l.service] = append(n.listeners[l.service][:i:i], n.listeners[l.service][i+1:]...)
				break
			}
		}
	})
	return nil
}

func (l *listener) Addr() net.Addr { return address("10.0.0.1:9443") }

type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

// conn is a connection with the addresses of a network.
type conn struct{ net.Conn }

func (c conn) RemoteAddr() net.Addr { return address("10.0.0.9:1234") }
func (c conn) LocalAddr() net.Addr  { return address("10.0.0.1:9443") }

// dial opens a connection to one of the replicas of a Service.
func (n *network) dial(ctx context.Context, _, service string, _ int) (net.Conn, error) {
	n.mu.Lock()
	all := n.listeners[service]
	var l *listener
	if len(all) > 0 {
		l = all[n.random.IntN(len(all))]
	}
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("no endpoints available for service %q", service)
	}
	ours, theirs := net.Pipe()
	select {
	case l.conns <- conn{theirs}:
		return ours, nil
	case <-l.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
