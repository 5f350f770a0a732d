package http1

import (
	"bytes"
	"net/http"
	"strconv"
	"time"
)

// response is an http.ResponseWriter that buffers the response until the handler returns; one value serves all requests of a connection.
type response struct {
	header http.Header
	status int // 0 until WriteHeader
	body   []byte
	out    bytes.Buffer
}

// maxKept is the largest buffer that is reused for the next response.
const maxKept = 64 << 10

func (w *response) reset() {
	if w.header == nil {
		w.header = http.Header{}
	}
	clear(w.header)
	w.status, w.body = 0, w.body[:0]
	if cap(w.body) > maxKept {
		w.body = nil
	}
	if w.out.Cap() > maxKept {
		w.out = bytes.Buffer{}
	}
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter; the first call counts.
func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *response) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body = append(w.body, b...)
	return len(b), nil
}

// message returns the bytes of the response to a request with the method. They are valid until reset.
func (w *response) message(method string, more bool, now time.Time) []byte {
	w.WriteHeader(http.StatusOK)
	if len(w.body) > 0 && w.header["Content-Type"] == nil {
		w.header.Set("Content-Type", http.DetectContentType(w.body))
	}
	for _, own := range [...]string{"Connection", "Content-Length", "Date", "Transfer-Encoding"} {
		delete(w.header, own)
	}
	out := &w.out
	out.Reset()
	b := append(out.AvailableBuffer(), "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(w.status), 10)
	b = append(append(b, ' '), http.StatusText(w.status)...)
	b = append(b, "\r\nDate: "...)
	b = now.UTC().AppendFormat(b, http.TimeFormat)
	b = append(b, "\r\n"...)
	if w.status != http.StatusNoContent && w.status != http.StatusNotModified {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(w.body)), 10)
		b = append(b, "\r\n"...)
	} else {
		w.body = w.body[:0]
	}
	if !more {
		b = append(b, "Connection: close\r\n"...)
	}
	out.Write(b)
	_ = w.header.Write(out) // it writes into memory, so it cannot fail
	out.WriteString("\r\n")
	if method != http.MethodHead {
		out.Write(w.body)
	}
	return out.Bytes()
}
