package apiserver

import (
	"regexp"
	"time"
)

// Skew sets the clock of the client ahead of that of the server; behind it, if the duration is negative. All clients run on one clock, so
// that times in what the client sends and gets are shifted: to the client, every other clock seems to be wrong.
func (c *Client) Skew(ahead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew = ahead
}

func (c *Client) ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew
}

var timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// shifted returns a text with all times later by a duration.
func shifted(text []byte, by time.Duration) []byte {
	if by == 0 {
		return text
	}
	return timestamp.ReplaceAllFunc(text, func(old []byte) []byte {
		at, err := time.Parse(time.RFC3339Nano, string(old))
		if err != nil {
			return old
		}
		layout := time.RFC3339
		if len(old) > len("2006-01-02T15:04:05Z") {
			layout = "2006-01-02T15:04:05.000000Z"
		}
		return []byte(at.Add(by).UTC().Format(layout))
	})
}
