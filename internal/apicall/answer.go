package apicall

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/ephor-dev/ephor/internal/value"
)

// Limits of one call; zero fields have the defaults.
type Limits struct {
	// MaxBytes is the longest answer that is read.
	MaxBytes int64
	// Timeout is the longest time that a call takes, if the context does not end before.
	Timeout time.Duration
}

// Defaults of Limits.
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

// errRedirect: the next address would not have been checked with the first.
var errRedirect = errors.New("redirects are not followed")

func refuseRedirects(*http.Request, []*http.Request) error { return errRedirect }

// read returns the body, at most the limit.
func (l Limits) read(r *http.Response) ([]byte, error) {
	limit := l.maxBytes()
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("response length must be less than max allowed response length of %d", limit)
	}
	return body, nil
}

// decode reads a JSON answer; none at all is null.
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
