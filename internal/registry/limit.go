package registry

import (
	"fmt"
	"io"
	"net/http"
)

// limited bounds what one image may take: the number of requests, and the length of each answer.
type limited struct {
	next     http.RoundTripper
	max      int64
	requests int // one goroutine asks
}

// LimitError says that a registry gave more than is read.
type LimitError struct{ What string }

func (e *LimitError) Error() string { return "the registry " + e.What }

// RoundTrip implements http.RoundTripper.
func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.requests++; l.requests > maxRequests {
		return nil, &LimitError{fmt.Sprintf("asks for more than %d requests", maxRequests)}
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

// limitedBody is a body that ends with an error when it is too long.
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
