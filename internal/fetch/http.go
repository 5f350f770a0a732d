package fetch

import (
	"errors"
	"net/http"
	"net/url"

	"ephor.invalid/ephor/internal/bounded"
)

// Client returns a client that follows no redirect: it would send credentials to an address that was not checked. A redirect is an answer.
func Client(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Do sends a request and reads the whole body of the answer, of at most limit bytes.
func Do(c *http.Client, r *http.Request, limit int64) (*http.Response, []byte, error) {
	answer, err := c.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	body, err := bounded.Read(answer.Body, limit)
	return answer, body, err
}

// Bare removes the address of the request from an error, since it may contain a token.
func Bare(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) && u.Err != nil {
		return u.Err
	}
	return err
}
