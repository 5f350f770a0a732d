package apicall

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// Proxy is the proxy that the operator chose for connections to registries, transparency logs and other servers. A nil Proxy means
// none.
type Proxy struct {
	choose func(*url.URL) (*url.URL, error)
	own    map[string]bool // addresses of the proxy itself
}

// FromEnvironment selects the proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY define.
const FromEnvironment = "environment"

// NewProxy parses the address of a proxy, or FromEnvironment; nil for an empty text. NO_PROXY applies in both cases.
func NewProxy(text string) (*Proxy, error) {
	if text == "" {
		return nil, nil
	}
	config := httpproxy.FromEnvironment()
	if text != FromEnvironment {
		config.HTTPProxy, config.HTTPSProxy = text, text
	}
	p := &Proxy{choose: config.ProxyFunc(), own: map[string]bool{}}
	for _, address := range []string{config.HTTPProxy, config.HTTPSProxy} {
		if address == "" {
			continue
		}
		if !strings.Contains(address, "://") {
			address = "http://" + address
		}
		u, err := url.Parse(address)
		if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5" {
			return nil, errors.New("the proxy is not a URL with http, https or socks5") // the text may contain a password
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443", "socks5": "1080"}[u.Scheme]
		}
		p.own[net.JoinHostPort(u.Hostname(), port)] = true
	}
	if text == FromEnvironment && len(p.own) == 0 {
		return nil, nil
	}
	return p, nil
}

// Via makes a transport connect as calls of services do, so that it never reaches an address on the blocklist. Requests through a
// proxy are checked by the name of their host, because the proxy resolves it.
func (s *Services) Via(p *Proxy, t *http.Transport) {
	t.Proxy, t.DialContext = nil, s.Dial
	if p == nil {
		return
	}
	t.Proxy = func(r *http.Request) (*url.URL, error) { return s.choose(p, r.URL) }
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if p.own[address] {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
		return s.Dial(ctx, network, address)
	}
}

// choose returns the proxy for an address, nil for none. It rejects hosts that may not be reached through a proxy.
func (s *Services) choose(p *Proxy, u *url.URL) (*url.URL, error) {
	proxy, err := p.choose(u)
	if err != nil || proxy == nil {
		return nil, err
	}
	if err := s.checkHost(u.Hostname()); err != nil {
		return nil, err
	}
	return proxy, nil
}

// checkHost returns the reason why a host may not be reached by its name; nil if it may.
func (s *Services) checkHost(host string) error {
	host = hostName(host)
	if s.block.hasHost(host) {
		return errListed(host)
	}
	addresses := []string{host}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		addresses = []string{"127.0.0.1", "::1"}
	}
	for _, text := range addresses {
		a, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		if p, blocked := s.block.covering(a); blocked {
			return fmt.Errorf("connection to %s blocked: IP %s falls in blocked range %s", host, a, p)
		}
		return nil
	}
	// Other notations of addresses, such as 2130706433 or 0x7f.1: the proxy may interpret them as numbers.
	last := host[strings.LastIndex(host, ".")+1:]
	if last == "" || strings.HasPrefix(last, "0x") || strings.Trim(last, "0123456789") == "" {
		return fmt.Errorf("connection to %s blocked: the host is neither a name nor an address", host)
	}
	return nil
}

// errListed is the error for a host whose name is on the blocklist.
func errListed(host string) error {
	return fmt.Errorf("connection to %s blocked: the host name is on the blocklist", host)
}

// environmentSet reports whether the environment defines a proxy.
func environmentSet() bool {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

// ProxyIgnored reports whether the environment defines a proxy that is not used.
func ProxyIgnored(text string) bool { return text == "" && environmentSet() }
