package registry

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"ephor.invalid/ephor/internal/world"
)

// A registry that names another login server, or demands a login at last, is asked again how to log in once it denies a request: what was cached
// about it does not deny images for the rest of an hour.
func TestLoginMoves(t *testing.T) {
	var at atomic.Value // the path of the login server; empty for none
	at.Store("")
	host := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
		realm := at.Load().(string)
		switch {
		case strings.HasPrefix(r.URL.Path, "/login"):
			fmt.Fprintf(w, `{"token":%q,"expires_in":3600}`, "of"+r.URL.Path)
			return true
		case realm == "" || r.Header.Get("Authorization") == "Bearer of"+realm:
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+realm+`",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	push(t, host+"/team/app:1", image(t, "1", "amd64"))
	client := registries(t, Options{})
	for _, ask := range []struct {
		name string
		send func() error
	}{
		{"a digest", func() error {
			_, err := client.Digest(t.Context(), world.ImageRequest{Reference: host + "/team/app:1"})
			return err
		}},
		{"a part", func() error {
			s, err := client.Open(t.Context(), Ask{Image: world.ImageRequest{Reference: host + "/team/app:1"}})
			if err != nil {
				return err
			}
			_, err = s.Fetch(t.Context(), Fetch{Repository: s.Image.Context(), Path: "manifests/1"})
			return err
		}},
	} {
		for _, realm := range []string{"", "/login1", "/login2"} {
			at.Store(realm)
			if ask.send() != nil { // the first denial
				if err := ask.send(); err != nil {
					t.Errorf("%s, login at %q: %v", ask.name, realm, err)
				}
			}
		}
		client = registries(t, Options{})
	}
}

// Fetch repeats the requests that every other request to a registry repeats.
func TestFetchRepeats(t *testing.T) {
	for _, status := range passing {
		var asked atomic.Int32
		host := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/manifests/") || asked.Add(1) > 1 {
				return false
			}
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(status)
			return true
		})
		asked.Store(1)
		push(t, host+"/team/app:1", image(t, "1", "amd64"))
		asked.Store(0)
		s, err := registries(t, Options{}).Open(t.Context(), Ask{Image: world.ImageRequest{Reference: host + "/team/app:1"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Fetch(t.Context(), Fetch{Repository: s.Image.Context(), Path: "manifests/1"}); err != nil {
			t.Errorf("%d: %v", status, err)
		}
	}
}
