package controller

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/bounded"
)

// Only answers to requests for pages are bounded, and less so those for one object.
func TestPagedClient(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", pageBytes+1))
	}))
	defer server.Close()
	client := PagedClient(&http.Client{})
	for query, exceeded := range map[string]bool{"": false, "?limit=1": false, "?limit=2": true, "?limit=500&watch=false": true, "?watch=true&limit=500": false} {
		answer, err := client.Get(server.URL + query)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(answer.Body); bounded.Exceeded(err) != exceeded || !exceeded && err != nil {
			t.Errorf("%q: %v", query, err)
		}
		answer.Body.Close()
	}
}
