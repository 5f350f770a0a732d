package soak

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"ephor.invalid/ephor/bench/load"
	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// The running process answers each malformed review with 4xx or with a decision, and continues. The answers to each kind of damage are
// tested beside the code (internal/admission) and in robustness/.
func TestMalformedReviews(t *testing.T) {
	p := install(t)
	replica := p.start(1, devcluster.LongPaths...)[0]
	p.podSecurity()
	suite.Until(p.T, "the policies are enforced", p.podClient(1).enforced)
	clean := load.Review(load.Pod("shop", false))
	bad := load.Review(load.Pod("shop", true))
	url := p.reviews(replica)

	type answer struct {
		status   int
		decision bool
		err      error
	}
	post := func(c *http.Client, contentType string, body []byte) answer {
		resp, err := c.Post(url, contentType, bytes.NewReader(body))
		if err != nil {
			return answer{err: err}
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return answer{resp.StatusCode, resp.StatusCode == http.StatusOK && bytes.Contains(text, []byte(`"allowed":`)), err}
	}
	fine := func(a answer) bool { return a.err == nil && (a.decision || a.status >= 400 && a.status < 500) }

	deep := func(n int, open, shut string) []byte {
		return []byte(strings.Replace(string(clean), `"object":{`, `"object":{"deep":`+strings.Repeat(open, n)+"1"+strings.Repeat(shut, n)+",", 1))
	}
	c := load.NewClient()
	for _, m := range []struct {
		name, contentType string
		body              []byte
		status            int // 0: a decision is accepted, too
	}{
		{"nothing", "application/json", nil, 400},
		{"another content type", "application/xml", clean, 415},
		{"no JSON", "application/json", []byte("apiVersion: v1"), 417},
		{"no request", "application/json", []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`), 400},
		{"another version", "application/json", bytes.Replace(clean, []byte("admission.k8s.io/v1"), []byte("admission.k8s.io/v9"), 1), 417},
		{"another kind", "application/json", bytes.Replace(clean, []byte(`"AdmissionReview"`), []byte(`"Pod"`), 1), 417},
		{"500 deep", "application/json", deep(500, `{"a":`, "}"), 0},
		{"100,000 deep", "application/json", deep(100_000, `{"a":`, "}"), 0},
		{"100,000 lists deep", "application/json", deep(100_000, `[`, "]"), 0},
		{"20 MB", "application/json", deep(1, `"`+strings.Repeat("x", 20<<20)+`",`, ""), 0},
	} {
		a := post(c, m.contentType, m.body)
		t.Logf("%-22s %d decision=%v %v", m.name, a.status, a.decision, a.err)
		if m.name == "20 MB" && a.err != nil {
			continue // the server need not read it to its end, and then the client may not receive the answer
		}
		if !fine(a) || m.status > 0 && a.status != m.status {
			t.Errorf("%s: %+v", m.name, a)
		}
	}
	for n := 1; n < len(clean); n += max(1, len(clean)/times(2000)) {
		if a := post(c, "application/json", clean[:n]); a.err != nil || a.status != 417 {
			t.Errorf("cut after %d of %d bytes: %+v", n, len(clean), a)
			break
		}
	}

	const clients = 4
	changed := times(10_000)
	var mu sync.Mutex
	var wrong []string
	counts := map[int]int{}
	var wg sync.WaitGroup
	for k := range clients {
		wg.Go(func() {
			c := load.NewClient()
			random := rand.New(rand.NewPCG(uint64(k), 1))
			for range changed / clients {
				body := mutate(random, [][]byte{clean, bad}[random.IntN(2)])
				a := post(c, "application/json", body)
				mu.Lock()
				counts[a.status]++
				if !fine(a) && len(wrong) < 5 {
					wrong = append(wrong, fmt.Sprintf("%+v for %.300s", a, body))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, w := range wrong {
		t.Error(w)
	}
	figure(t, fmt.Sprintf("%d changed reviews, answers that are neither 4xx nor a decision", changed), len(wrong), "0", len(wrong) == 0)
	for status, n := range counts {
		tell(t, fmt.Sprintf("answered with %d", status), n)
	}
	err := p.podClient(1).enforced()
	figure(t, "the process goes on and decides", map[bool]string{true: "yes", false: fmt.Sprint(err)}[err == nil], "yes", err == nil && suite.Alive(replica) == nil)
	mb, err := load.ResidentMB(replica.PID())
	figure(t, "memory afterwards", fmt.Sprintf("%.0f MB", mb), "at most 250 MB", err == nil && mb <= 250)
}

// mutate changes a review in one to eight places: bytes, cuts, repetitions, and misplaced JSON tokens.
func mutate(random *rand.Rand, review []byte) []byte {
	out := bytes.Clone(review)
	words := []string{"null", "{}", "[]", `""`, "-1", "1e999", "true", `"\ud800"`, "{", "}", "[", "]", ",", ":", `"`, "\x00", "\xff\xfe", "99999999999999999999", `{"a":{"a":{"a":[[[[]]]]}}}`}
	for range 1 + random.IntN(8) {
		at := random.IntN(len(out))
		switch random.IntN(5) {
		case 0:
			out[at] = byte(random.IntN(256))
		case 1: // a value replaces another one
			if colon := bytes.IndexByte(out[at:], ':'); colon >= 0 {
				from := at + colon + 1
				to := from + bytes.IndexAny(out[from:], ",}")
				if to > from {
					out = append(append(bytes.Clone(out[:from]), words[random.IntN(len(words))]...), out[to:]...)
				}
			}
		case 2:
			to := min(len(out), at+random.IntN(100))
			out = append(bytes.Clone(out[:at]), out[to:]...)
		case 3:
			to := min(len(out), at+random.IntN(100))
			out = append(bytes.Clone(out[:to]), out[at:]...)
		case 4:
			out = append(append(bytes.Clone(out[:at]), words[random.IntN(len(words))]...), out[at:]...)
		}
		if len(out) == 0 {
			return out
		}
	}
	return out
}
