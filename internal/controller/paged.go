package controller

import (
	"io"
	"net/http"
	"strconv"

	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/bounded"
)

// The bounds of a page of a list: with several objects, and with one, since some servers ignore the limit and send the whole list.
const (
	pageBytes  = 4 << 20 // decoded, some ten times as much
	wholeBytes = 64 << 20
)

// Paged returns the configuration of a client for Pages that does not read a page beyond a bound: users who may create objects decide how large
// they are. The error is a *bounded.TooLargeError.
func Paged(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return pages{next} })
	return cfg
}

// PagedClient returns an HTTP client for such a client.
func PagedClient(c *http.Client) *http.Client {
	out := *c
	if out.Transport == nil {
		out.Transport = http.DefaultTransport
	}
	out.Transport = pages{out.Transport}
	return &out
}

// pages is the transport of such clients.
type pages struct{ next http.RoundTripper }

func (p pages) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := p.next.RoundTrip(r)
	query := r.URL.Query()
	if watch, _ := strconv.ParseBool(query.Get("watch")); err != nil || r.Method != http.MethodGet || watch {
		return answer, err
	}
	switch n, _ := strconv.Atoi(query.Get("limit")); {
	case n > 1:
		answer.Body = &body{answer.Body, pageBytes, pageBytes}
	case n == 1:
		answer.Body = &body{answer.Body, wholeBytes, wholeBytes}
	}
	return answer, nil
}

// WrappedRoundTripper gives client-go access to the wrapped RoundTripper.
func (p pages) WrappedRoundTripper() http.RoundTripper { return p.next }

// body is a body of which at most limit bytes are read; left is the number of the others.
type body struct {
	io.ReadCloser
	limit, left int64
}

func (b *body) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.left -= int64(n); b.left < 0 {
		return 0, &bounded.TooLargeError{Limit: b.limit}
	}
	return n, err
}
