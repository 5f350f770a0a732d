package http1

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// lookEvery is the pause between two looks at a connection whose request is still handled.
	lookEvery = 50 * time.Millisecond
	// brief is how long a request is handled without a look before its response: each look is a system call, and took 5 % of a review's processor
	// time. A client that gives up sooner shows the URL to no requester: the timeouts of webhooks are seconds, and a requester who leaves reads
	// no answer.
	brief = time.Millisecond
)

// Watch calls lost, at most once, if the client ends the connection of r while r is handled, or if the response cannot be written. It works for
// the connections of a Handler, and lost must be quick. A client that only closes its sending side counts as well.
func Watch(r *http.Request, lost func()) {
	if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
		c.watch.begin(lost)
	}
}

type connectionKey struct{}

// watch watches the connection for one request at a time. Its timer goes on between the requests of a busy connection: setting a timer for each
// request took 6 % of a review's processor time, since each wakes the thread that waits for the network.
type watch struct {
	ended func() bool // reports whether the client has ended the connection; nil if that is not known

	mu      sync.Mutex
	lost    func() // nil while no request is watched
	began   time.Time
	timer   *time.Timer
	running bool // the timer is set
	busy    bool // a request began since the last look
}

// watching returns the context of the requests on a connection.
func (c *connection) watching(ctx context.Context, conn net.Conn) context.Context {
	c.watch.ended = endedOf(conn)
	return context.WithValue(ctx, connectionKey{}, c)
}

// innermost returns the connection of package net below TLS and the limits of Bound.
func innermost(conn net.Conn) net.Conn {
	for {
		switch x := conn.(type) {
		case interface{ NetConn() net.Conn }: // TLS
			conn = x.NetConn()
		case *bounded:
			conn = x.Conn
		default:
			return conn
		}
	}
}

func (w *watch) begin(lost func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost, w.began, w.busy = lost, time.Now(), true
	switch {
	case w.ended == nil || w.running:
	case w.timer == nil:
		w.timer, w.running = time.AfterFunc(lookEvery, w.look), true
	default:
		w.running = true
		w.timer.Reset(lookEvery)
	}
}

// look is called from time to time while requests arrive or one is handled.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost != nil && w.ended() {
		w.lost()
		w.lost = nil
	}
	if w.running = w.lost != nil || w.busy; w.running {
		w.timer.Reset(lookEvery)
	}
	w.busy = false
}

// handled is called before the response is written.
func (w *watch) handled() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost == nil || w.ended == nil || time.Since(w.began) < brief {
		return
	}
	if w.ended() {
		w.lost()
		w.lost = nil
	}
}

// written is called after the response was written, or could not be written.
func (w *watch) written(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && w.lost != nil {
		w.lost()
	}
	w.lost = nil
}
