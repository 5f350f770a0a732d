package http1

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// MaxHeader bounds the bytes of a request's first line and header. An API server sends less than 1 KiB.
const MaxHeader = 16 << 10

// slop is the margin that net/http adds to its own limit.
const slop = 4096

// ArrivalTimeout bounds the duration of a handshake, and of the header of a request.
const ArrivalTimeout = 5 * time.Second

// Limits bound the connections that are not proved. Zero fields mean the defaults.
type Limits struct {
	// Connections is the maximum number of such connections.
	Connections int
	// Bytes bounds the memory that they use together.
	Bytes int64
}

// Default values of Limits. perConnection is the memory of a connection apart from the bytes that were read from it: the buffers of TLS and
// HTTP, and the stack of its goroutine.
const (
	DefaultConnections = 256
	DefaultBytes       = 16 << 20
	perConnection      = 32 << 10
)

// Bound accepts the connections of l and closes some of them if there are too many. It accepts every new connection, since it would
// otherwise refuse honest clients, too. A connection that was proved (see Proved) does not count and is never closed to make room. Among
// the others, it closes the oldest one of the source that holds the most, so a source that opens many connections displaces its own. A
// source is an IPv4 address or a /64 network of IPv6.
//
// The connections must belong to an http.Server that Harden has prepared.
func Bound(l net.Listener, limits Limits) net.Listener {
	if limits.Connections <= 0 {
		limits.Connections = DefaultConnections
	}
	if limits.Bytes <= 0 {
		limits.Bytes = DefaultBytes
	}
	return &boundListener{Listener: l, limits: limits, sources: map[netip.Prefix]*source{}}
}

// Harden limits the headers of a server to MaxHeader bytes and the time for handshakes and headers to ArrivalTimeout. It also makes the
// connection of Bound available to the server's requests.
func Harden(s *http.Server) *http.Server {
	s.MaxHeaderBytes, s.ReadHeaderTimeout = MaxHeader-slop, ArrivalTimeout
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if over, ok := conn.(*tls.Conn); ok {
			conn = over.NetConn()
		}
		if b, ok := conn.(*bounded); ok {
			return context.WithValue(ctx, boundedKey{}, b)
		}
		return ctx
	}
	return s
}

type boundedKey struct{}

// Proved marks the connection of r as belonging to a client that may send reviews. A handler calls it before it reads the body. It does
// nothing for connections that are not from Bound.
func Proved(r *http.Request) {
	if b, ok := r.Context().Value(boundedKey{}).(*bounded); ok && !b.free.Load() {
		b.release()
	}
}

// Source returns the source of an address (host:port): an IPv4 address, or the network of an IPv6 address, since a host may use many
// addresses of its network. An unreadable address gives the zero Prefix.
func Source(address string) netip.Prefix {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return netip.Prefix{}
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	ip = ip.Unmap().WithZone("")
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

type boundListener struct {
	net.Listener
	limits Limits

	mu      sync.Mutex
	sources map[netip.Prefix]*source // sources with connections that are not proved
	count   int                      // the number of such connections
	bytes   int64                    // the bytes that they hold
	age     uint64                   // the age of the connection that was accepted last
}

// source is an address or network with connections that are not proved.
type source struct {
	connections list.List // of *bounded, oldest first
	bytes       int64
}

// Accept implements net.Listener.
func (l *boundListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	b := &bounded{Conn: conn, listener: l, from: Source(conn.RemoteAddr().String())}
	l.mu.Lock()
	s := l.sources[b.from]
	if s == nil {
		s = &source{}
		l.sources[b.from] = s
	}
	l.age++
	b.age, b.place = l.age, s.connections.PushBack(b)
	l.count++
	l.mu.Unlock()
	l.hold(b, perConnection)
	return b, nil
}

// hold counts n more bytes for a connection that is not proved, and closes connections until the others are within the limits.
func (l *boundListener) hold(b *bounded, n int64) {
	var ended []*bounded
	l.mu.Lock()
	if b.place != nil {
		b.bytes += n
		l.bytes += n
		l.sources[b.from].bytes += n
	}
	for l.count > l.limits.Connections || l.bytes > l.limits.Bytes {
		victim := l.oldest()
		l.drop(victim)
		ended = append(ended, victim)
	}
	l.mu.Unlock()
	for _, victim := range ended {
		_ = victim.Conn.Close() // its reader and its writer get an error, and clean up
	}
}

// oldest returns the oldest connection of the source that holds the most; among equal sources, of the one with the oldest connection.
func (l *boundListener) oldest() *bounded {
	var most *source
	var first *bounded
	for _, s := range l.sources {
		oldest := s.connections.Front().Value.(*bounded)
		if most == nil || s.bytes > most.bytes || s.bytes == most.bytes && oldest.age < first.age {
			most, first = s, oldest
		}
	}
	return first
}

// drop removes a connection.
func (l *boundListener) drop(b *bounded) {
	if b.place == nil {
		return
	}
	s := l.sources[b.from]
	s.connections.Remove(b.place)
	s.bytes -= b.bytes
	l.bytes -= b.bytes
	l.count--
	b.place, b.bytes = nil, 0
	if s.connections.Len() == 0 {
		delete(l.sources, b.from)
	}
}

// bounded is a connection of Bound.
type bounded struct {
	net.Conn
	listener *boundListener
	from     netip.Prefix
	free     atomic.Bool // proved or closed, so it no longer counts

	// listener.mu guards the following fields.
	age   uint64
	place *list.Element // nil: it does not count
	bytes int64
}

// Read implements net.Conn. The bytes count as held until the next write: an answer, or the next step of the handshake.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if n > 0 && !b.free.Load() {
		b.listener.hold(b, int64(n))
	}
	return n, err
}

// Write implements net.Conn.
func (b *bounded) Write(p []byte) (int, error) {
	n, err := b.Conn.Write(p)
	if !b.free.Load() {
		b.listener.forget(b)
	}
	return n, err
}

// forget stops counting the bytes that were read.
func (l *boundListener) forget(b *bounded) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.place == nil {
		return
	}
	read := b.bytes - perConnection
	b.bytes -= read
	l.bytes -= read
	l.sources[b.from].bytes -= read
}

// Close implements net.Conn.
func (b *bounded) Close() error {
	b.release()
	return b.Conn.Close()
}

// CloseWrite closes the writing side, if the connection supports that.
func (b *bounded) CloseWrite() error {
	if half, ok := b.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (b *bounded) release() {
	b.free.Store(true)
	b.listener.mu.Lock()
	b.listener.drop(b)
	b.listener.mu.Unlock()
}
