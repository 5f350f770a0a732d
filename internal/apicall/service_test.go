package apicall

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

func newServices(t *testing.T, o ServiceOptions) *Services {
	t.Helper()
	s, err := NewServices(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// echoServer answers with the request that it received.
func echoServer(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		case "/404":
			http.Error(w, "no", http.StatusNotFound)
		case "/text":
			fmt.Fprint(w, "text")
		case "/long":
			fmt.Fprintf(w, "%q", strings.Repeat("x", 5000))
		case "/slow":
			<-r.Context().Done()
		case "/nothing":
		default:
			fmt.Fprintf(w, `{"method": %q, "body": %q, "a": %q, "authorization": %q, "host": %q}`, r.Method, body, r.Header.Get("A"), r.Header.Get("Authorization"), r.Host)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// CEL policies receive every answer, with its status.
func TestExchange(t *testing.T) {
	srv := echoServer(t)
	s := newServices(t, ServiceOptions{Limits: Limits{MaxBytes: 1000}})
	host := strings.TrimPrefix(srv.URL, "http://")
	for path, want := range map[string]string{
		"/x":       `{"a":"","authorization":"","body":"","host":"` + host + `","method":"GET","statusCode":200}`,
		"/nothing": `{"body":null,"statusCode":200}`,
		"/text":    `{"body":null,"statusCode":200}`,
		"/404":     `{"body":null,"statusCode":404}`,
		"/long":    "error: response length must be less than max allowed response length of 1000",
	} {
		v, err := s.Exchange(t.Context(), world.ServiceRequest{Method: "GET", URL: srv.URL + path})
		got := value.JSON(v)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestServices(t *testing.T) {
	srv := echoServer(t)
	s := newServices(t, ServiceOptions{Limits: Limits{MaxBytes: 1000}})
	hasty := newServices(t, ServiceOptions{Limits: Limits{Timeout: 300 * time.Millisecond}})
	host := strings.TrimPrefix(srv.URL, "http://")
	for _, c := range []struct {
		request world.ServiceRequest
		want    string
	}{
		{world.ServiceRequest{Method: "GET", URL: srv.URL, Headers: []world.Header{{Name: "A", Value: "b"}}},
			`{"a":"b","authorization":"","body":"","host":"` + host + `","method":"GET"}`},
		{world.ServiceRequest{Method: "POST", URL: srv.URL + "/x", Body: map[string]any{"k": []any{1.0}}, Headers: []world.Header{{Name: "authorization", Value: "own"}, {Name: "Host", Value: "h"}}},
			`{"a":"","authorization":"own","body":"{\"k\":[1]}","host":"h","method":"POST"}`},
		{world.ServiceRequest{Method: "GET", URL: srv.URL + "/nothing"}, `null`},
		{world.ServiceRequest{Method: "GET", URL: srv.URL + "/404"}, "error: HTTP 404 Not Found: no\n"},
		{world.ServiceRequest{Method: "GET", URL: srv.URL + "/text"}, "error: the answer is not JSON: "},
		{world.ServiceRequest{Method: "GET", URL: srv.URL + "/long"}, "error: response length must be less than max allowed response length of 1000"},
		{world.ServiceRequest{Method: "GET", URL: srv.URL + "/redirect"}, `error: request failed: Get "http://169.254.169.254/": redirects are not followed`},
		{world.ServiceRequest{Method: "GET", URL: srv.URL + "/slow"}, "error: request failed: Get \"" + srv.URL + "/slow\": context deadline exceeded"},
		{world.ServiceRequest{Method: "GET", URL: srv.URL, CABundle: "x"}, "error: failed to parse PEM CA bundle for APICall"},
		{world.ServiceRequest{Method: "GET", URL: srv.URL, VariableHost: true}, `error: URL "` + srv.URL + `" is not permitted: its host comes from a variable, and there is no allowlist`},
	} {
		asked := s
		if strings.HasSuffix(c.request.URL, "/slow") {
			asked = hasty
		}
		v, err := asked.Call(t.Context(), c.request)
		got := value.JSON(v)
		if err != nil {
			got = "error: " + err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%+v:\n got %s\nwant %s", c.request, got, c.want)
		}
	}
}

// Row S11 of docs/security/threat-model.md: no notation of the address of the metadata service or of this machine reaches it.
func TestS11Blocked(t *testing.T) {
	names := map[string][]netip.Addr{
		"inside.example":   {netip.MustParseAddr("169.254.169.254")},
		"mapped.example":   {netip.MustParseAddr("::ffff:a9fe:a9fe")},
		"both.example":     {netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("127.0.0.1")},
		"2130706433":       {netip.MustParseAddr("127.0.0.1")}, // as some resolvers interpret it
		"0177.0.0.1":       {netip.MustParseAddr("127.0.0.1")},
		"0x7f.1":           {netip.MustParseAddr("127.0.0.1")},
		"nowhere.example.": nil,
	}
	dialled := ""
	s := newServices(t, ServiceOptions{Block: DefaultBlocklist,
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			dialled = host
			return names[host], nil
		}})
	for _, u := range []string{
		"http://169.254.169.254/latest/meta-data", "http://169.254.169.253/", "http://[fd00:ec2::254]/", "http://metadata.google.internal/", "http://METADATA.google.internal./",
		"http://127.0.0.1:8080/", "http://127.1.2.3/", "http://[::1]/", "http://0.0.0.0/", "http://[::]/", "http://localhost/", "http://LOCALHOST./",
		"http://[::ffff:a9fe:a9fe]/", "http://[::ffff:169.254.169.254]/", "http://[64:ff9b::a9fe:a9fe]/", "http://[2002:a9fe:a9fe::1]/", "http://[::a9fe:a9fe]/", "http://[fe80::1%25eth0]/",
		"http://inside.example/", "http://mapped.example/", "http://both.example/", "http://2130706433/", "http://0177.0.0.1/", "http://0x7f.1/", "http://nowhere.example./",
		"http://user@192.0.2.1/", "http://example.com@127.0.0.1/", "http://example.com:x@127.0.0.1/", "ftp://192.0.2.1/", "file:///etc/passwd", "gopher://192.0.2.1", "http:///x", "http:192.0.2.1", "//192.0.2.1/", "", "http://%zz/",
	} {
		v, err := s.Call(t.Context(), world.ServiceRequest{Method: "GET", URL: u})
		if err == nil {
			t.Errorf("%s gives %v", u, v)
			continue
		}
		known := false
		for _, why := range []string{"blocked", "is not permitted", "cannot be read", "has no address"} {
			known = known || strings.Contains(err.Error(), why)
		}
		if !known {
			t.Errorf("%s: %v (resolved %s)", u, err, dialled)
		}
	}
	_, err := s.Call(t.Context(), world.ServiceRequest{Method: "GET", URL: "http://metadata.google.internal/x"})
	const want = `URL "http://metadata.google.internal/x" is blocked: hostname "metadata.google.internal" is on the blocklist`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	_, err = s.Call(t.Context(), world.ServiceRequest{Method: "GET", URL: "http://127.0.0.1:1/x"})
	const wantRange = `request failed: Get "http://127.0.0.1:1/x": connection to 127.0.0.1:1 blocked: IP 127.0.0.1 falls in blocked range 127.0.0.0/8`
	if err == nil || err.Error() != wantRange {
		t.Errorf("got %v", err)
	}
}

// A name server that answers differently the second time changes nothing: the name is resolved once per call.
func TestS11Rebinding(t *testing.T) {
	srv := echoServer(t)
	u, _ := url.Parse(srv.URL)
	lookups := 0
	s := newServices(t, ServiceOptions{Block: []string{"169.254.0.0/16"},
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			if lookups++; lookups > 1 {
				return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}})
	if _, err := s.Call(t.Context(), world.ServiceRequest{Method: "GET", URL: "http://rebind.example:" + u.Port() + "/"}); err != nil || lookups != 1 {
		t.Errorf("%d lookups, %v", lookups, err)
	}
	if _, err := s.Call(t.Context(), world.ServiceRequest{Method: "GET", URL: "http://rebind.example:" + u.Port() + "/"}); err == nil || lookups != 2 {
		t.Errorf("%d lookups, %v", lookups, err)
	}
}

func TestAllowlist(t *testing.T) {
	s := newServices(t, ServiceOptions{Allow: []string{"https://a.example/api", "http://b.example:8080", "https://c.example/"}})
	for u, want := range map[string]bool{
		"https://a.example/api": true, "https://a.example/api/x": true, "https://a.example:443/api": true, "https://A.example./api?x=1": true,
		"https://a.example/apix": false, "https://a.example/": false, "https://a.example.evil/api": false, "http://a.example/api": false,
		"https://a.example/api/../admin": false, "https://a.example/api/%2e%2e/admin": false, "https://a.example:8443/api": false,
		"http://b.example:8080/any": true, "http://b.example:8080": true, "http://b.example/": false, "https://c.example/x": true,
	} {
		_, err := s.check(world.ServiceRequest{URL: u, VariableHost: true})
		if (err == nil) != want {
			t.Errorf("%s: %v", u, err)
		}
		if wanted := `URL "` + u + `" is not permitted: no matching allowlist entry`; err != nil && err.Error() != wanted {
			t.Errorf("got %v, want %s", err, wanted)
		}
	}
}

// Row S12 of docs/security/threat-model.md: a service receives no token of ours; it receives a token made for it only if the
// administrator named it, and only over TLS.
func TestS12Token(t *testing.T) {
	seen := ""
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Get("Authorization")
		fmt.Fprint(w, "{}")
	}))
	defer srv.Close()
	plainServer := echoServer(t)
	bundle := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	token := func(context.Context) (string, error) { return "projected", nil }
	for _, c := range []struct {
		options ServiceOptions
		headers []world.Header
		want    string
	}{
		{ServiceOptions{}, nil, ""},
		{ServiceOptions{Token: token}, nil, ""},
		{ServiceOptions{Token: token, TokenHosts: []string{"other.example"}}, nil, ""},
		{ServiceOptions{Token: token, TokenHosts: []string{"example.com"}}, nil, "Bearer projected"},
		{ServiceOptions{Token: token, TokenHosts: []string{"example.com"}}, []world.Header{{Name: "Authorization", Value: "own"}}, "own"},
	} {
		c.options.Lookup = func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
		s := newServices(t, c.options)
		u, _ := url.Parse(srv.URL)
		seen = "not asked"
		if _, err := s.Call(t.Context(), world.ServiceRequest{Method: "GET", URL: "https://example.com:" + u.Port() + "/", CABundle: bundle, Headers: c.headers}); err != nil || seen != c.want {
			t.Errorf("%+v: seen %q, %v", c.options.TokenHosts, seen, err)
		}
		p, _ := url.Parse(plainServer.URL)
		v, err := s.Call(t.Context(), world.ServiceRequest{Method: "GET", URL: "http://example.com:" + p.Port() + "/"})
		if m, _ := v.(map[string]any); err != nil || m["authorization"] != "" {
			t.Errorf("without TLS: %v, %v", v, err)
		}
	}
	// A certificate of an unknown authority is refused.
	if _, err := newServices(t, ServiceOptions{}).Call(t.Context(), world.ServiceRequest{Method: "GET", URL: srv.URL}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown certificate: %v", err)
	}
}

func TestBadOptions(t *testing.T) {
	for _, o := range []ServiceOptions{{Block: []string{"10.0.0.0/99"}}, {Allow: []string{"example.com"}}, {Allow: []string{"ftp://x"}}, {TokenHosts: []string{"a/b"}}} {
		if _, err := NewServices(o); err == nil || !strings.HasPrefix(err.Error(), "invalid HTTP flag configuration: ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A limit of zero is the default: there is always one.
func TestLimitsOfZero(t *testing.T) {
	if l := (Limits{}); l.maxBytes() != DefaultMaxBytes || l.timeout() != DefaultTimeout {
		t.Errorf("%d bytes, %s", l.maxBytes(), l.timeout())
	}
}
