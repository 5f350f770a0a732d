package registry

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"ephor.invalid/ephor/internal/world"
)

// S23: the requests for one image are counted, whatever makes them necessary.
func TestS23Requests(t *testing.T) {
	asked := 0
	l := &limited{max: 1, requests: maxRequests, next: roundTrip(func(*http.Request) (*http.Response, error) {
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

// Every repository that is used for the image of a namespaced policy must be permitted.
func TestPermittedRepositories(t *testing.T) {
	var seen []string
	c, err := New(Options{Permit: func(u *url.URL) error {
		seen = append(seen, u.Host+u.Path)
		if strings.Contains(u.Path, "secret") {
			return errors.New("no matching allowlist entry")
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		other, host string
		confined    bool
		want        string
	}{
		{"", "one.example", true, "one.example/v2/team/app"},
		{"two.example/signatures", "one.example", true, "one.example/v2/team/app"},
		{"two.example/signatures", "two.example", true, "two.example/v2/signatures"},
		{"one.example/signatures", "one.example", true, "one.example/v2/team/app one.example/v2/signatures"},
		{"one.example/secret", "one.example", true, "one.example/v2/team/app one.example/v2/secret: no matching allowlist entry"},
		{"one.example/secret", "one.example", false, ""},
		{"one.example/secret", "storage.example", true, ""},
	} {
		ask := Ask{Image: world.ImageRequest{Reference: "one.example/team/app:1", Confined: test.confined}}
		if test.other != "" {
			ask.Repositories = []string{test.other}
		}
		s, err := c.Open(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		seen = nil
		next := roundTrip(func(*http.Request) (*http.Response, error) { return &http.Response{Body: http.NoBody}, nil })
		_, err = c.permitted(ask.Image, append([]name.Repository{s.Image.Context()}, s.Repositories...), next).
			RoundTrip(&http.Request{URL: &url.URL{Scheme: "https", Host: test.host, Path: "/v2/"}})
		got := strings.Join(seen, " ")
		if err != nil {
			got += ": " + err.Error()
		}
		if got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
	if _, err := c.Open(t.Context(), Ask{Image: world.ImageRequest{Reference: "a/b"}, Repositories: []string{"Not A Repository"}}); err == nil {
		t.Error("a bad repository is accepted")
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
