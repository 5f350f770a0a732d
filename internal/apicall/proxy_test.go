package apicall

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// Requests go through the proxy that the operator chose, and are checked by the name of their host. If none is chosen, a proxy in the
// environment is not used.
func TestProxy(t *testing.T) {
	var proxied atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxied.Add(1)
		_, _ = io.WriteString(w, "proxied "+r.URL.Host)
	}))
	t.Cleanup(proxy.Close)
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "direct") }))
	t.Cleanup(inside.Close)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(inside.URL, "http://"))
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(name, proxy.URL)
	}
	t.Setenv("NO_PROXY", "direct.example,198.51.100.7")
	block := []string{"127.0.0.0/8", "::1/128", "169.254.0.0/16", "metadata.internal", "*.svc"}
	for _, c := range []struct{ proxy, address, want string }{
		{FromEnvironment, "http://registry.example/v2/", "proxied registry.example"},
		{proxy.URL, "http://registry.example/v2/", "proxied registry.example"},
		{proxy.URL, "http://203.0.113.7/v2/", "proxied 203.0.113.7"},
		{proxy.URL, "http://metadata.internal/", "blocked: the host name is on the blocklist"},
		{proxy.URL, "http://Metadata.Internal./", "blocked: the host name is on the blocklist"},
		{proxy.URL, "http://ｍetadata.internal/", "blocked: the host name is on the blocklist"},
		{proxy.URL, "http://registry.kube.svc/", "blocked: the host name is on the blocklist"},
		{proxy.URL, "http://169.254.169.254/latest", "blocked: IP 169.254.169.254 falls in blocked range 169.254.0.0/16"},
		{proxy.URL, "http://[::ffff:169.254.169.254]/latest", "blocked: IP"},
		{proxy.URL, "http://2852039166/latest", "neither a name nor an address"},
		{proxy.URL, "http://0xa9.0xfe.0xa9.0xfe/latest", "neither a name nor an address"},
		{proxy.URL, "http://169.254.43518/latest", "neither a name nor an address"},
		{proxy.URL, "http://localhost:" + port + "/", "blocked"}, // never sent to a proxy: checked when it is dialled
		{proxy.URL, "http://127.0.0.1:" + port + "/", "blocked"},
		{"", "http://127.0.0.1:" + port + "/", "blocked"},
	} {
		p, err := NewProxy(c.proxy)
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewServices(ServiceOptions{Block: block})
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{DisableKeepAlives: true}
		s.Via(p, transport)
		before := proxied.Load()
		got := ""
		answer, err := (&http.Client{Transport: transport}).Get(c.address)
		if err != nil {
			got = err.Error()
		} else {
			text, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			got = string(text)
		}
		if !strings.Contains(got, c.want) || (proxied.Load() > before) != strings.HasPrefix(c.want, "proxied") {
			t.Errorf("%q, %s: %s, want %s", c.proxy, c.address, got, c.want)
		}
	}
	if !ProxyIgnored("") || ProxyIgnored(FromEnvironment) {
		t.Error("a proxy of the environment that is not used is not seen")
	}
	for _, bad := range []string{"ftp://proxy", "http://", "http://user:password@ /"} {
		if _, err := NewProxy(bad); err == nil || strings.Contains(err.Error(), "password") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(name, "")
	}
	if p, err := NewProxy(FromEnvironment); p != nil || err != nil || ProxyIgnored("") {
		t.Errorf("no proxy in the environment: %v, %v", p, err)
	}
}
