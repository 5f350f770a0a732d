package keepalive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// maxHeader bounds the bytes of a request's first line and header, maxUnread those of a body that are read only to get to
// the next request. Both are net/http's own figures.
const (
	maxHeader = http.DefaultMaxHeaderBytes + 4096
	maxUnread = 256 << 10
)

// connection is one that was taken over.
type connection struct {
	handler *Handler
	conn    net.Conn
	limited limited
	reader  *bufio.Reader
	ctx     context.Context
	tls     *tls.ConnectionState
	remote  string
	writer  response

	idle bool // waits for a request; guarded by handler.mu
}

// newConnection returns a connection whose first request is r, read from buffered as far as its header.
func newConnection(h *Handler, conn net.Conn, buffered *bufio.Reader, r *http.Request) *connection {
	c := &connection{handler: h, conn: conn, limited: limited{from: conn}, ctx: context.WithoutCancel(r.Context()), tls: r.TLS, remote: r.RemoteAddr}
	// What has arrived already is in the buffer of net/http, whose own reader stays behind.
	ahead, _ := buffered.Peek(buffered.Buffered())
	c.reader = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(ahead)), &c.limited), 8<<10)
	return c
}

// serve answers first and all that follow.
func (c *connection) serve(first *http.Request) {
	deadline := time.Now().Add(c.handler.Read)
	_ = c.conn.SetReadDeadline(deadline)
	c.limited.left = first.ContentLength
	first = first.WithContext(c.ctx)
	first.Body = io.NopCloser(io.LimitReader(c.reader, first.ContentLength))
	for r := first; r != nil; r = c.next() {
		if !c.answer(r) {
			return
		}
	}
}

// next waits for a request and reads its header; nil ends the connection.
func (c *connection) next() *http.Request {
	if !c.handler.mark(c, true) {
		return nil
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(c.handler.Idle))
	c.limited.left = maxHeader
	if _, err := c.reader.Peek(1); err != nil {
		return nil // the client closed it, or we did
	}
	c.handler.mark(c, false)
	_ = c.conn.SetReadDeadline(time.Now().Add(c.handler.Read))
	r, err := http.ReadRequest(c.reader)
	switch {
	case errors.Is(err, errHeader):
		c.refuse(http.StatusRequestHeaderFieldsTooLarge)
		return nil
	case err != nil, r.Host == "" && r.ProtoAtLeast(1, 1):
		c.refuse(http.StatusBadRequest)
		return nil
	}
	c.limited.left = unlimited // handlers limit bodies
	if r.Header.Get("Expect") != "" && r.ContentLength != 0 {
		if !strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
			c.refuse(http.StatusExpectationFailed)
			return nil
		}
		if _, err := io.WriteString(c.conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return nil
		}
	}
	r.TLS, r.RemoteAddr = c.tls, c.remote
	return r.WithContext(c.ctx)
}

// answer lets the handler answer r; more is false when the connection has to end.
func (c *connection) answer(r *http.Request) (more bool) {
	w := &c.writer
	w.reset()
	c.handler.Handler.ServeHTTP(w, r)
	more = !r.Close && r.ProtoAtLeast(1, 1) && !strings.EqualFold(w.header.Get("Connection"), "close") && read(r.Body) && c.handler.mark(c, false)
	_ = c.conn.SetWriteDeadline(time.Now().Add(c.handler.Write))
	_, err := c.conn.Write(w.message(r.Method, more, time.Now()))
	return more && err == nil
}

// refuse answers what is no request.
func (c *connection) refuse(status int) {
	w := &c.writer
	w.reset()
	http.Error(w, http.StatusText(status), status)
	_ = c.conn.SetWriteDeadline(time.Now().Add(c.handler.Write))
	_, _ = c.conn.Write(w.message(http.MethodPost, false, time.Now()))
}

// read reads what a handler left of a body; false when that is too much.
func read(body io.Reader) bool {
	n, err := io.CopyN(io.Discard, body, maxUnread)
	return n < maxUnread && err == io.EOF
}

// limited reads at most left bytes.
type limited struct {
	from io.Reader
	left int64
}

// unlimited is more than anybody sends.
const unlimited = 1<<63 - 1

var errHeader = errors.New("the header is too long")

// Read implements io.Reader.
func (l *limited) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, errHeader
	}
	n, err := l.from.Read(b[:min(int64(len(b)), l.left)])
	l.left -= int64(n)
	return n, err
}
