package registry

import (
	"net/http"
	"time"
)

// observed reports each answer: the time until its header arrived, and the status, 0 for none.
type observed struct {
	next    http.RoundTripper
	observe func(host string, status int, took time.Duration)
}

// RoundTrip implements http.RoundTripper.
func (o *observed) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	answer, err := o.next.RoundTrip(r)
	status := 0
	if err == nil {
		status = answer.StatusCode
	}
	o.observe(r.URL.Host, status, time.Since(began))
	return answer, err
}

// CloseIdleConnections closes the idle connections of the transport that it wraps.
func (o *observed) CloseIdleConnections() {
	if c, ok := o.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// watch reports the answers that a transport receives, if the options request that.
func (c *Client) watch(next http.RoundTripper) http.RoundTripper {
	if c.options.Observe == nil {
		return next
	}
	return &observed{next: next, observe: c.options.Observe}
}
