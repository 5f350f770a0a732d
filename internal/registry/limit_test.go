package registry

import (
	"errors"
	"net/http"
	"testing"
)

// S23: the requests for one image are counted, whatever makes them necessary.
func TestS23Requests(t *testing.T) {
	asked := 0
	l := &limited{max: 1, next: roundTrip(func(*http.Request) (*http.Response, error) {
		asked++
		return &http.Response{Body: http.NoBody}, nil
	})}
	for i := range 2 * maxRequests {
		_, err := l.RoundTrip(nil)
		var limit *LimitError
		if refused := errors.As(err, &limit); refused != (i >= maxRequests) {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	if asked != maxRequests {
		t.Errorf("%d requests got out", asked)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
