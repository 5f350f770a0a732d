package apicall

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"ephor.invalid/ephor/internal/bounded"
	"ephor.invalid/ephor/internal/value"
)

// Limits of one call. Zero fields mean the defaults.
type Limits struct {
	// MaxBytes is the maximum size of an answer.
	MaxBytes int64
	// Timeout is the maximum duration of a call, unless the context ends earlier.
	Timeout time.Duration
}

// Default values of Limits.
const (
	DefaultMaxBytes = 2_000_000
	DefaultTimeout  = 30 * time.Second
)

func (l Limits) maxBytes() int64 {
	if l.MaxBytes <= 0 {
		return DefaultMaxBytes
	}
	return l.MaxBytes
}

func (l Limits) timeout() time.Duration {
	if l.Timeout <= 0 {
		return DefaultTimeout
	}
	return l.Timeout
}

// errRedirect is the error for a redirect: its target was not checked with the first address.
var errRedirect = errors.New("redirects are not followed")

func refuseRedirects(*http.Request, []*http.Request) error { return errRedirect }

// read returns the body, up to the limit.
func (l Limits) read(r *http.Response) ([]byte, error) {
	limit := l.maxBytes()
	body, err := bounded.Read(r.Body, limit)
	if bounded.Exceeded(err) {
		return nil, fmt.Errorf("response length must be less than max allowed response length of %d", limit)
	}
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return body, nil
}

// decode decodes a JSON answer; an empty answer is null.
func decode(body []byte) (any, error) {
	if len(body) == 0 {
		return nil, nil
	}
	v, err := value.DecodeJSON(body)
	if err != nil {
		return nil, fmt.Errorf("the answer is not JSON: %w", err)
	}
	return v, nil
}

func successful(status int) bool { return status >= 200 && status < 300 }
