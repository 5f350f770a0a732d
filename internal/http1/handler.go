package http1

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// Handler is an http.Handler for an http.Server that takes over the connections of POST requests. Its fields must not change while it is
// used.
type Handler struct {
	// Handler answers the requests. Its http.ResponseWriter has only the three methods of the interface.
	Handler http.Handler
	// Idle is how long a connection may wait for its next request, Read how long a request may take to arrive (its header at most
	// ArrivalTimeout), and Write how long sending its response may take. All must be positive.
	Idle, Read, Write time.Duration

	linger  time.Duration // 0, for the default lingering, except in tests
	mu      sync.Mutex
	taken   map[*connection]struct{}
	closing bool
	empty   chan struct{} // closed when the last connection ends after closing was set
}

// ServeHTTP implements http.Handler. If it takes the connection over, it returns when the connection has ended.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.ProtoMajor != 1 || r.ProtoMinor != 1 || r.ContentLength <= 0 || r.Header.Get("Expect") != "" || r.Close {
		h.Handler.ServeHTTP(w, r)
		return
	}
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		h.Handler.ServeHTTP(w, r)
		return
	}
	// The connection is registered first, since net/http's own Shutdown does not wait for hijacked connections.
	c := &connection{handler: h}
	if !h.enter(c) {
		w.Header().Set("Connection", "close")
		h.Handler.ServeHTTP(w, r)
		return
	}
	defer h.leave(c)
	conn, rw, err := hijacker.Hijack()
	if err != nil {
		http.Error(w, "cannot take over the connection: "+err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	c.adopt(conn, rw.Reader, r)
	c.serve(r)
}

// Shutdown closes idle connections, lets the others finish their request, and returns when all have ended. If ctx ends first, it closes the
// remaining ones and returns an error. Call it after http.Server.Shutdown, when no new connection can arrive.
func (h *Handler) Shutdown(ctx context.Context) error {
	h.mu.Lock()
	if !h.closing {
		h.closing, h.empty = true, make(chan struct{})
		if len(h.taken) == 0 {
			close(h.empty)
		}
	}
	for c := range h.taken {
		if c.idle {
			_ = c.conn.SetReadDeadline(past) // it closes itself: TLS sends a close message, which a client need not read
		}
	}
	h.mu.Unlock()
	select {
	case <-h.empty:
		return nil
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.taken) == 0 {
		return nil
	}
	for c := range h.taken {
		if c.conn != nil {
			go c.conn.Close()
		}
	}
	return errors.Join(errors.New("keep-alive connections were still in use"), ctx.Err())
}

// past is a deadline in the past.
var past = time.Unix(1, 0)

func (h *Handler) enter(c *connection) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return false
	}
	if h.taken == nil {
		h.taken = map[*connection]struct{}{}
	}
	h.taken[c] = struct{}{}
	return true
}

func (h *Handler) leave(c *connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.taken, c)
	if h.closing && len(h.taken) == 0 {
		close(h.empty)
	}
}

// mark sets whether c waits for a request; more is false if no further request may begin.
func (h *Handler) mark(c *connection, idle bool) (more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.idle = idle
	return !h.closing
}
