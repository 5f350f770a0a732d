package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/compliance"
)

// Every path answers every client with the same strict headers, even in a refusal.
func TestHeaders(t *testing.T) {
	p := newPage(true)
	for _, path := range []string{"/", "/app.js", "/style.css", "/icon.svg", "/nothing", "/api/v1/state", "/api/v1/nothing"} {
		for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS"} {
			h := p.do(method, path, "", "Origin", "https://elsewhere.example").Header
			csp := h.Get("Content-Security-Policy")
			for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
				if !strings.Contains(csp, want) {
					t.Errorf("%s %s: %q lacks %s", method, path, csp, want)
				}
			}
			if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") || strings.Contains(csp, "http") {
				t.Errorf("%s %s: %q is not strict", method, path, csp)
			}
			for name, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
				"Access-Control-Allow-Origin": "", "Access-Control-Allow-Methods": "", "Set-Cookie": "",
			} {
				if got := h.Get(name); got != want {
					t.Errorf("%s %s: %s: %q, want %q", method, path, name, got, want)
				}
			}
		}
	}
}

func TestRefused(t *testing.T) {
	local, guarded := newPage(false), newPage(true)
	long := "?resource=" + strings.Repeat("x", maxQuery)
	for _, c := range []struct {
		name         string
		p            *page
		method, path string
		header       []string
		want         int
	}{
		{"a page", local, "GET", "/", nil, 200},
		{"its head", local, "HEAD", "/", nil, 200},
		{"a write", local, "POST", "/api/v1/state", nil, 405},
		{"a preflight", local, "OPTIONS", "/api/v1/state", nil, 405},
		{"a method nobody knows", local, "BREW", "/", nil, 405},
		{"an asset that is none", local, "GET", "/doc.go", nil, 404},
		{"a way out of the assets", local, "GET", "/%2e%2e/doc.go", nil, 404},
		{"127.0.0.1", local, "GET", "/api/v1/state", []string{"Host", "127.0.0.1:41234"}, 200},
		{"[::1]", local, "GET", "/api/v1/state", []string{"Host", "[::1]:8090"}, 200},
		{"localhost without a port", local, "GET", "/api/v1/state", []string{"Host", "LOCALHOST"}, 200},
		{"DNS rebinding", local, "GET", "/api/v1/state", []string{"Host", "attacker.example:8090"}, 421},
		{"DNS rebinding of the page", local, "GET", "/", []string{"Host", "attacker.example"}, 421},
		{"a name that begins well", local, "GET", "/api/v1/state", []string{"Host", "localhost.attacker.example"}, 421},
		{"another address of this machine", local, "GET", "/api/v1/state", []string{"Host", "10.1.2.3:8090"}, 421},
		{"no host", local, "GET", "/api/v1/state", []string{"Host", ""}, 421},
		{"another site", local, "GET", "/api/v1/state", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"another port of this machine", local, "GET", "/api/v1/state", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"the page itself", local, "GET", "/api/v1/state", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"with tokens any name", guarded, "GET", "/", []string{"Host", "reports.example.com"}, 200},
		{"no token", guarded, "GET", "/api/v1/state", nil, 401},
		{"a long query", local, "GET", "/api/v1/report" + long, nil, 414},
		{"a parameter that is none", local, "GET", "/api/v1/report?namespaces=a", nil, 400},
		{"a result that is none", local, "GET", "/api/v1/report?result=failed", nil, 400},
		{"a severity that is none", local, "GET", "/api/v1/report?severity=hi", nil, 400},
		{"a scope that is none", local, "GET", "/api/v1/report?scope=all", nil, 400},
		{"a parameter twice", local, "GET", "/api/v1/report?resource=a&resource=b", nil, 400},
		{"a trend of a policy", local, "GET", "/api/v1/trend?policy=p", nil, 400},
		{"a position that is none", local, "GET", "/api/v1/results?after=x", nil, 400},
	} {
		if got := c.p.do(c.method, c.path, "", c.header...); got.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", c.name, got.StatusCode, c.want)
		} else if got.StatusCode == 405 && got.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: Allow %q", c.name, got.Header.Get("Allow"))
		}
	}
	r := httptest.NewRequest("GET", "http://localhost/", strings.NewReader("body"))
	w := httptest.NewRecorder()
	local.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body: %d", w.Code)
	}
}

// The rights of users apply to the summary, its totals, and the trend.
func TestViews(t *testing.T) {
	p := newPage(true)
	for token, want := range map[string]struct {
		status     int
		namespaces string // in the summary
		fails      int
	}{
		"all": {200, ",a,b", 3}, "namespaces": {200, "a,b", 2}, "a": {200, "a", 1}, "cluster": {200, "", 1}, "none": {200, "", 0},
		"nobody": {401, "", 0}, "": {401, "", 0},
	} {
		resp := p.do("GET", "/api/v1/report", token)
		if resp.StatusCode != want.status {
			t.Errorf("%q: %d", token, resp.StatusCode)
			continue
		}
		if want.status != 200 {
			if got := resp.Header.Get("WWW-Authenticate"); !strings.HasPrefix(got, "Bearer") {
				t.Errorf("%q: WWW-Authenticate %q", token, got)
			}
			continue
		}
		var s compliance.Summary
		if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, l := range s.ByNamespace {
			names = append(names, l.Name)
		}
		if got := strings.Join(names, ","); got != want.namespaces || s.Totals.Fail != want.fails || s.Totals.Pass != want.fails {
			t.Errorf("%q sees %q, %+v", token, got, s.Totals)
		}
		var trend struct{ Samples []sampleJSON }
		if err := json.NewDecoder(p.do("GET", "/api/v1/trend", token).Body).Decode(&trend); err != nil {
			t.Fatal(err)
		}
		for _, sample := range trend.Samples {
			if sample.Fail != want.fails {
				t.Errorf("%q sees in the trend %+v", token, sample)
			}
		}
	}
}

// A report may name any resource: only users who may list the reports of its namespace see it.
func TestViewIsOfTheReport(t *testing.T) {
	p := newPage(true)
	r := decoded("b", "liar", "Pod", "fail")
	r.Results[0].Resource.Namespace = "a"
	p.index.put(reportKey{"b", "liar"}, entriesOf(r))
	var s compliance.Summary
	if err := json.NewDecoder(p.do("GET", "/api/v1/report?namespace=a", "a").Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	if s.Totals.Fail != 1 {
		t.Errorf("a report of b changes what those see who may list reports of a: %+v", s.Totals)
	}
}

// Answers of the API server are cached for seconds, and a missing answer does not mean no.
func TestRemembered(t *testing.T) {
	p := newPage(true)
	asked := func(tokens, access int) {
		t.Helper()
		if p.people.asked["tokens"] != tokens || p.people.asked["access"] != access {
			t.Errorf("asked %v, want %d and %d", p.people.asked, tokens, access)
		}
	}
	for range 3 {
		p.do("GET", "/api/v1/report", "a")
	}
	asked(1, 4) // everywhere, cluster-scoped, and two namespaces
	p.clock = p.clock.Add(tokenFor)
	p.do("GET", "/api/v1/report", "a")
	asked(2, 4)
	p.clock = p.clock.Add(accessFor)
	p.do("GET", "/api/v1/report", "a")
	asked(3, 8)
	for range 3 {
		if got := p.do("GET", "/api/v1/report", "nobody"); got.StatusCode != 401 {
			t.Error(got.Status)
		}
	}
	asked(4, 8)

	p.clock = p.clock.Add(time.Minute)
	p.people.broken = true
	resp := p.do("GET", "/api/v1/report", "a")
	var text bytes.Buffer
	_, _ = text.ReadFrom(resp.Body)
	if resp.StatusCode != http.StatusServiceUnavailable || strings.Contains(text.String(), "knows") {
		t.Errorf("%d %s", resp.StatusCode, &text)
	}
	p.people.broken = false
	delete(p.people.may, "a") // the account is gone
	if got := p.do("GET", "/api/v1/report", "a"); got.StatusCode != 401 {
		t.Errorf("a token that does not count any longer: %s", got.Status)
	}
}

// A user with too many requests waits, others do not; and guesses of tokens are limited.
func TestRates(t *testing.T) {
	p := newPage(true)
	last := 0
	for range userBurst + 1 {
		last = p.do("GET", "/api/v1/state", "a").StatusCode
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("too many requests: %d", last)
	}
	if got := p.do("GET", "/api/v1/state", "all").StatusCode; got != 200 {
		t.Errorf("another user: %d", got)
	}
	before := p.people.asked["tokens"]
	for i := range 10 * tokenBurst {
		p.do("GET", "/api/v1/state", fmt.Sprint("guess", i))
	}
	if n := p.people.asked["tokens"] - before; n > tokenBurst {
		t.Errorf("%d guesses reached the API server", n)
	}
	if got := p.do("GET", "/api/v1/state", "all").StatusCode; got != 200 {
		t.Errorf("a known user, while another client guesses: %d", got)
	}
	if len(p.sessions.known) > 10 || len(p.sessions.refused) > tokenBurst {
		t.Errorf("%d sessions, %d refused tokens are remembered", len(p.sessions.known), len(p.sessions.refused))
	}
}

// If there are too many namespaces to check each, the state says so, and a request for one by name works.
func TestManyNamespaces(t *testing.T) {
	p := newPage(true)
	for i := range maxNamespaces + 50 {
		p.put(fmt.Sprintf("ns-%04d", i), "one", "Pod", "fail")
	}
	last := fmt.Sprintf("ns-%04d", maxNamespaces+49)
	p.people.may["last"] = []string{last}
	var s state
	if err := json.NewDecoder(p.do("GET", "/api/v1/state", "last").Body).Decode(&s); err != nil || s.Unasked != 52 {
		t.Errorf("%+v %v", s, err)
	}
	var summary compliance.Summary
	if err := json.NewDecoder(p.do("GET", "/api/v1/report?namespace="+last, "last").Body).Decode(&summary); err != nil || summary.Totals.Fail != 1 {
		t.Errorf("%+v %v", summary.Totals, err)
	}
}

// Before all reports are read there are no counts, since they would be too small.
func TestNotRead(t *testing.T) {
	p := newPage(false)
	p.complete.Store(false)
	if got := p.do("GET", "/api/v1/report", ""); got.StatusCode != http.StatusServiceUnavailable || got.Header.Get("Retry-After") == "" {
		t.Errorf("%s %v", got.Status, got.Header)
	}
}

// The log never holds a token.
func TestTokensAreNotLogged(t *testing.T) {
	p := newPage(true)
	p.people.may["a-secret-token"] = nil
	p.do("GET", "/api/v1/report", "a-secret-token")
	p.do("GET", "/api/v1/report", "another-secret-token")
	p.do("GET", "/api/v1/report?token=x", "a-secret-token")
	p.people.broken = true // its error contains the token
	p.do("GET", "/api/v1/report", "third-secret-token")
	if !strings.Contains(p.log.String(), "the API server is away") {
		t.Errorf("the log:\n%s", &p.log)
	}
	if strings.Contains(p.log.String(), "secret-token") {
		t.Errorf("the log:\n%s", &p.log)
	}
}

// Without tokens every client that reaches the dashboard sees everything: it is served on loopback only.
func TestServedOnLoopback(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := New(Options{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // a Serve that does not refuse returns nil
	defer cancel()
	if err := d.Serve(ctx, l, nil); err == nil || !strings.Contains(err.Error(), "on loopback only") {
		t.Errorf("a dashboard without tokens is served on all addresses: %v", err)
	}
}
