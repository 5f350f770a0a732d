package discovery

import (
	"net/http"
	"time"
)

// requestTimeout limits each request of discovery. It is the limit of client-go, which sets it only for clients that it makes itself.
const requestTimeout = 32 * time.Second

// Limited returns a client for discovery on the connections of another one. Its requests end after 32 s, since a caller that waits for an answer
// that never comes holds up all others that need the same list.
func Limited(c *http.Client) *http.Client {
	limited := *c
	limited.Timeout = requestTimeout
	return &limited
}
