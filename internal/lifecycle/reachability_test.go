package lifecycle

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// An outage causes two log lines, however long it lasts.
func TestOutageIsTwoLines(t *testing.T) {
	var text bytes.Buffer
	now := time.Unix(1000, 0)
	r := &Reachability{now: func() time.Time { return now }, log: slog.New(slog.NewTextHandler(&text, nil))}
	for _, err := range []error{nil, errors.New("refused"), errors.New("refused"), errors.New("refused"), nil, nil} {
		r.evaluate(err)
		now = now.Add(4 * time.Second)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "does not answer") || !strings.Contains(lines[0], "refused") || !strings.Contains(lines[1], "after=12s") {
		t.Errorf("%d lines:\n%s", len(lines), text.String())
	}
}

// The API server's error while etcd is missing counts as an outage, a refusal does not.
func TestReachAsks(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/livez" {
			t.Errorf("asked for %s", req.URL.Path)
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	r, err := NewReachability(&rest.Config{Host: server.URL}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status int
		ok     bool
	}{{200, true}, {403, true}, {429, true}, {500, false}, {503, false}} {
		status = c.status
		if err := r.ask(t.Context()); (err == nil) != c.ok {
			t.Errorf("%d: %v", c.status, err)
		}
	}
	server.Close()
	if r.ask(t.Context()) == nil {
		t.Error("nobody listens, and yet it answers")
	}
}
