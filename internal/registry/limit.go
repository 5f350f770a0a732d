package registry

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
)

// limited bounds the requests for one image: their number, and the length of each answer.
type limited struct {
	next     http.RoundTripper
	max      int64 // maximum bytes of an answer
	requests int64 // remaining number of requests
	sent     atomic.Int64
}

// LimitError is the error for a registry that exceeds a limit.
type LimitError struct{ What string }

func (e *LimitError) Error() string { return "the registry " + e.What }

// RoundTrip implements http.RoundTripper.
func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.sent.Add(1) > l.requests {
		return nil, &LimitError{fmt.Sprintf("asks for more than %d requests", l.requests)}
	}
	answer, err := l.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if answer.ContentLength > l.max {
		answer.Body.Close()
		return nil, tooLong(l.max)
	}
	answer.Body = &limitedBody{ReadCloser: answer.Body, max: l.max}
	return answer, nil
}

func tooLong(max int64) error {
	return &LimitError{fmt.Sprintf("answers with more than %d bytes", max)}
}

// bounded sends a request to a registry only if Permit has permitted each repository that the session uses there. Login servers and storage
// are chosen by the registry and not checked: an operator who permits a registry trusts it with that, and the addresses are checked when
// they are dialled.
type bounded struct {
	next   http.RoundTripper
	permit func(*url.URL) error
	paths  map[string][]string // by host
}

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	for _, path := range b.paths[r.URL.Host] {
		if err := b.permit(&url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: path}); err != nil {
			return nil, err
		}
	}
	return b.next.RoundTrip(r)
}

// limitedBody is a body that returns an error when it is too long.
type limitedBody struct {
	io.ReadCloser
	max, read int64
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.read += int64(n); b.read > b.max {
		return 0, tooLong(b.max)
	}
	return n, err
}
