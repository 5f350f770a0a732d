package registry

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// passing are statuses that say nothing about the image: the same request may succeed a moment later.
var passing = []int{http.StatusRequestTimeout, http.StatusTooManyRequests, 499, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, 522}

// patient repeats a request if a registry is overloaded, after the time that the registry requests (Retry-After) or a short one, if
// the deadline of the session leaves enough time.
type patient struct {
	next http.RoundTripper
	wait time.Duration // 0 for firstWait; tests shorten it
}

// RoundTrip implements http.RoundTripper.
func (p *patient) RoundTrip(r *http.Request) (*http.Response, error) {
	wait := firstWait
	if p.wait > 0 {
		wait = p.wait
	}
	for sent := 1; ; sent++ {
		answer, err := p.next.RoundTrip(r)
		if err != nil || sent > maxRetries || !slices.Contains(passing, answer.StatusCode) || r.Method != http.MethodGet && r.Method != http.MethodHead {
			return answer, err
		}
		pause := retryAfter(answer.Header)
		if pause == 0 {
			pause = wait + rand.N(wait/4+1)
			wait *= 4
		}
		if deadline, ok := r.Context().Deadline(); pause > maxWait || ok && time.Until(deadline) <= pause {
			return answer, nil
		}
		drain(answer.Body)
		if err := sleep(r.Context(), pause); err != nil {
			return nil, err
		}
	}
}
