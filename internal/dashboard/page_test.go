package dashboard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/reports"
	"ephor.invalid/ephor/internal/world"
)

// people are the users with tokens, and the reports that they may list. They replace the API server in tests that do not depend on it;
// e2e/dashboard has the real one.
type people struct {
	mu  sync.Mutex
	may map[string][]string // user, which is also the token → places, including everywhere and clusterScoped
	// objects are the objects that a user may list, as "pods in a"; without a namespace, everywhere.
	objects map[string][]string
	broken  bool
	asked   map[string]int
}

func (p *people) Review(_ context.Context, token string) (User, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked["tokens"]++
	if p.broken {
		return User{}, false, errors.New("the API server is away, and knows " + token)
	}
	_, ok := p.may[token]
	return User{Name: token}, ok, nil
}

func (p *people) Allowed(_ context.Context, r world.AccessRequest) (bool, string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked["access"]++
	if p.objects != nil && r.Group == "" {
		return slices.Contains(p.objects[r.Username], r.Resource+" in "+r.Namespace), "", nil
	}
	if r.Verb != "list" || r.Group != "wgpolicyk8s.io" || r.Version != "v1alpha2" {
		return false, "", fmt.Errorf("asked for %+v", r)
	}
	place := r.Namespace
	switch {
	case r.Resource == "clusterpolicyreports":
		place = clusterScoped
	case place == "":
		place = everywhere
	}
	for _, allowed := range p.may[r.Username] {
		if allowed == place {
			return true, "", nil
		}
	}
	return false, "", nil
}

// page is a dashboard with some reports, and a clock.
type page struct {
	*Dashboard
	people *people
	log    bytes.Buffer
	clock  time.Time
}

func newPage(tokens bool) *page {
	p := &page{clock: time.Unix(1_800_000_000, 0), people: &people{asked: map[string]int{}, may: map[string][]string{
		"all": {everywhere, clusterScoped}, "namespaces": {everywhere}, "a": {"a"}, "cluster": {clusterScoped}, "none": nil,
	}}}
	o := Options{
		Form: reports.PolicyReports, Now: func() time.Time { return p.clock },
		Log: slog.New(slog.NewTextHandler(&p.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if tokens {
		o.Tokens, o.Access = p.people, p.people
	}
	p.Dashboard = New(o)
	for _, ns := range []string{"a", "b", ""} {
		p.put(ns, "one", "Pod", "fail", "pass")
	}
	p.trend.add(p.clock, p.index.totals())
	p.complete.Store(true)
	return p
}

// put adds a report about one resource with results of the rules r0, r1, …
func (p *page) put(namespace, name, kind string, results ...string) {
	p.index.put(reportKey{namespace, name}, entriesOf(decoded(namespace, name, kind, results...)))
}

func decoded(namespace, name, kind string, results ...string) compliance.Report {
	r := compliance.Report{Namespace: namespace, Name: name}
	for i, result := range results {
		r.Results = append(r.Results, compliance.Result{
			Policy: "p", Rule: fmt.Sprint("r", i), Result: compliance.Status(result), Severity: "high",
			Resource: compliance.Resource{Kind: kind, Namespace: namespace, Name: name},
		})
	}
	return r
}

func (p *page) do(method, path, token string, header ...string) *http.Response {
	r := httptest.NewRequest(method, "http://localhost:8090"+path, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, r)
	return w.Result()
}
