package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/dashboard"
	"ephor.invalid/ephor/internal/reports"
	"ephor.invalid/ephor/internal/world/live"
)

// One control plane serves all tests of the package. Each test has its own namespaces.
var cluster suite.Cluster

func TestMain(m *testing.M) {
	// The test that writes the picture starts no controller, so there are no requests to audit.
	os.Exit(cluster.Main(m, suite.Options{Values: "dashboard", Audited: os.Getenv("EPHOR_SCREENSHOT") == ""}))
}

// served is a dashboard in this process, for tests that change its clock or read its log.
type served struct {
	url string
	log *buffer

	mu    sync.Mutex
	ahead time.Duration // of the clock
}

// buffer is a log that can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (s *served) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.ahead)
}

// turn advances the clock.
func (s *served) turn(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// serve serves a dashboard of the cluster for a test, with or without tokens.
func serve(t *testing.T, tokens bool, change func(*dashboard.Options)) *served {
	t.Helper()
	s := &served{log: &buffer{}}
	cfg := rest.CopyConfig(cluster.Config)
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	reader, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	o := dashboard.Options{
		Client: reader, Form: reports.PolicyReports, Now: s.now,
		Log: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if tokens {
		known := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{authenticationv1.AddToScheme, authorizationv1.AddToScheme} {
			if err := add(known); err != nil {
				t.Fatal(err)
			}
		}
		reviews, err := client.New(cluster.Config, client.Options{Scheme: known})
		if err != nil {
			t.Fatal(err)
		}
		o.Tokens, o.Access = dashboard.TokenReviews{Creator: reviews}, live.Access{Creator: reviews}
	}
	if change != nil {
		change(&o)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + l.Addr().String()
	d := dashboard.New(o)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { d.Follow(ctx) })
	running.Go(func() {
		if err := d.Serve(ctx, l, nil); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		if t.Failed() {
			t.Logf("the dashboard's log:\n%s", s.log)
		}
	})
	return s
}

// get sends a request to a dashboard and decodes the response into result, unless that is nil.
func get(t testing.TB, base, path, token string, result any) (status int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if result != nil && resp.StatusCode == http.StatusOK {
		if err := json.NewDecoder(resp.Body).Decode(result); err != nil {
			t.Fatal(err)
		}
	}
	return resp.StatusCode
}

// ready waits until the dashboard has read the reports, and f accepts their number.
func ready(t testing.TB, base, token string, f func(reports int) bool) {
	t.Helper()
	suite.Eventually(t, func() error {
		var state struct{ Reports int }
		if status := get(t, base, "/api/v1/state", token, &state); status != http.StatusOK || !f(state.Reports) {
			return fmt.Errorf("%d, %d reports", status, state.Reports)
		}
		return nil
	})
}
