package http1

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// maxUnread bounds the unread bytes of a body that are skipped to reach the next request. net/http uses the same number.
const maxUnread = 256 << 10

// connection is a connection that was taken over from net/http.
type connection struct {
	handler *Handler
	limited limited
	reader  *bufio.Reader
	ctx     context.Context
	tls     *tls.ConnectionState
	remote  string
	writer  response
	watch   watch

	conn net.Conn // nil until take is called; written with handler.mu held
	post bool     // the last request was a POST
	idle bool     // waits for a request; guarded by handler.mu
}

// adopt takes over the connection of its first request r; buffered has read the header of r.
func (c *connection) adopt(conn net.Conn, buffered *bufio.Reader, r *http.Request) {
	c.handler.mu.Lock()
	c.conn = conn
	c.handler.mu.Unlock()
	c.limited.from, c.ctx, c.tls, c.remote = conn, c.watching(context.WithoutCancel(r.Context()), conn), r.TLS, r.RemoteAddr
	// Bytes that already arrived are in the buffer of net/http, which no longer uses its reader.
	ahead, _ := buffered.Peek(buffered.Buffered())
	c.reader = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(ahead)), &c.limited), 8<<10)
}

// serve answers the first request and all that follow.
func (c *connection) serve(first *http.Request) {
	_ = c.conn.SetReadDeadline(time.Now().Add(c.handler.Read))
	c.limited.left = first.ContentLength
	first = first.WithContext(c.ctx)
	first.Body = io.NopCloser(&exactly{from: c.reader, left: first.ContentLength})
	for r := first; r != nil; r = c.next() {
		if !c.answer(r) {
			return
		}
	}
}

// next waits for a request and reads its header; nil ends the connection.
func (c *connection) next() *http.Request {
	// Set both deadlines, since reading may also write (the key updates of TLS). Shutdown may set another deadline after this.
	_ = c.conn.SetDeadline(time.Now().Add(c.handler.Idle))
	if !c.handler.mark(c, true) {
		return nil
	}
	c.limited.left = MaxHeader
	if _, err := c.reader.Peek(len("GET ")); err != nil {
		return nil // the client or this process closed it
	}
	if !c.handler.mark(c, false) {
		return nil // Shutdown closed it as idle
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(min(c.handler.Read, ArrivalTimeout)))
	c.skipLineEnds()
	r, err := http.ReadRequest(c.reader)
	if late := net.Error(nil); err == io.EOF || errors.As(err, &late) && late.Timeout() {
		return nil // the request was incomplete, so the client expects no answer
	}
	if status := refusal(r, err); status != 0 {
		c.refuse(status)
		return nil
	}
	c.limited.left = unlimited // handlers limit bodies
	if int64(c.reader.Buffered()) < r.ContentLength || r.ContentLength < 0 {
		_ = c.conn.SetReadDeadline(time.Now().Add(c.handler.Read))
	}
	if r.Header.Get("Expect") != "" && r.ContentLength != 0 {
		_ = c.conn.SetWriteDeadline(time.Now().Add(c.handler.Write))
		if _, err := io.WriteString(c.conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return nil
		}
	}
	r.TLS, r.RemoteAddr = c.tls, c.remote
	return r.WithContext(c.ctx)
}

// skipLineEnds skips line ends that old clients send after the body of a POST, as net/http does.
func (c *connection) skipLineEnds() {
	if !c.post {
		return
	}
	begin, _ := c.reader.Peek(len("GET "))
	_, _ = c.reader.Discard(len(begin) - len(bytes.TrimLeft(begin, "\r\n")))
}

// refusal returns the status for a request of http.ReadRequest that must not be handled, otherwise 0. net/http's server makes the same
// checks after ReadRequest.
func refusal(r *http.Request, err error) int {
	expect := ""
	if err == nil {
		expect = r.Header.Get("Expect")
	}
	switch {
	case errors.Is(err, errHeader):
		return http.StatusRequestHeaderFieldsTooLarge
	case err != nil:
		return http.StatusBadRequest
	case r.ProtoMajor != 1:
		return http.StatusHTTPVersionNotSupported
	case r.Host == "" && r.ProtoAtLeast(1, 1) && r.Method != http.MethodConnect, !httpguts.ValidHostHeader(r.Host):
		return http.StatusBadRequest
	case expect != "" && !strings.EqualFold(expect, "100-continue"):
		return http.StatusExpectationFailed
	}
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return http.StatusBadRequest
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return http.StatusBadRequest
			}
		}
	}
	return 0
}

// answer lets the handler answer r; more is false if the connection must end. A handler that ends it answers before the rest of the body
// has arrived, as in net/http.
func (c *connection) answer(r *http.Request) (more bool) {
	w := &c.writer
	w.reset()
	c.post = r.Method == http.MethodPost
	c.handler.Handler.ServeHTTP(w, r)
	c.watch.handled()
	whole := !strings.EqualFold(w.header.Get("Connection"), "close") && read(r.Body)
	more = whole && !r.Close && r.ProtoAtLeast(1, 1) && c.handler.mark(c, false)
	_ = c.conn.SetWriteDeadline(time.Now().Add(c.handler.Write))
	_, err := c.conn.Write(w.message(r.Method, more, time.Now()))
	c.watch.written(err)
	if !whole && err == nil {
		c.linger()
	}
	return more && err == nil
}

// lingering is the time that a client that is still sending gets to read its answer.
const lingering = 500 * time.Millisecond

// linger closes the writing side and discards what the client still sends. Closing a connection with unread bytes resets it, and the client
// might lose the answer.
func (c *connection) linger() {
	_ = c.conn.SetDeadline(time.Now().Add(cmp.Or(c.handler.linger, lingering)))
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, c.conn)
	}
}

// refuse answers a malformed request with an error status.
func (c *connection) refuse(status int) {
	w := &c.writer
	w.reset()
	http.Error(w, http.StatusText(status), status)
	_ = c.conn.SetWriteDeadline(time.Now().Add(c.handler.Write))
	if _, err := c.conn.Write(w.message(http.MethodPost, false, time.Now())); err == nil {
		c.linger()
	}
}

// read discards the rest of a body; it returns false if the rest is too long.
func read(body io.Reader) bool {
	n, err := io.CopyN(io.Discard, body, maxUnread)
	return n < maxUnread && err == io.EOF
}

// exactly reads exactly left bytes; a shorter body gives an error, once.
type exactly struct {
	from io.Reader
	left int64
}

// Read implements io.Reader.
func (e *exactly) Read(b []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n, err := e.from.Read(b[:min(int64(len(b)), e.left)])
	e.left -= int64(n)
	if err == io.EOF && e.left > 0 {
		e.left, err = 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// limited reads at most left bytes.
type limited struct {
	from io.Reader
	left int64
}

// unlimited is larger than any request.
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
