package apicall

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"ephor.invalid/ephor/internal/fetch"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// ServiceOptions define which services may be called, and how.
type ServiceOptions struct {
	Limits
	// Block holds addresses, ranges and host names that are never called, whatever name resolves to them.
	Block []string
	// Allow holds URL prefixes; if there are any, only matching URLs are called.
	Allow []string
	// Token returns a token for the service audience, never one for the Kubernetes API; nil for none. It is sent only to hosts in
	// TokenHosts, over TLS, and only if the policy sets no Authorization header.
	Token      func(context.Context) (string, error)
	TokenHosts []string

	// Lookup resolves names; nil for the machine's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Services calls HTTP services.
type Services struct {
	options    ServiceOptions
	block      list
	allow      []*url.URL
	tokenHosts list
	dial       func(ctx context.Context, network, address string) (net.Conn, error)
}

// NewServices validates the options. Its errors begin with `invalid HTTP flag configuration`.
func NewServices(o ServiceOptions) (*Services, error) {
	s := &Services{options: o, dial: (&net.Dialer{}).DialContext}
	var err error
	if s.block, err = newList(o.Block); err != nil {
		return nil, err
	}
	if s.tokenHosts, err = newList(o.TokenHosts); err != nil {
		return nil, err
	}
	for _, prefix := range o.Allow {
		u, err := url.Parse(strings.TrimSpace(prefix))
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("invalid HTTP flag configuration: %q is not the beginning of a URL", prefix)
		}
		s.allow = append(s.allow, u)
	}
	if s.options.Lookup == nil {
		s.options.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	return s, nil
}

// Call is world.Services.
func (s *Services) Call(ctx context.Context, r world.ServiceRequest) (any, error) {
	answer, body, err := s.send(ctx, r)
	if err != nil {
		return nil, err
	}
	if !successful(answer.StatusCode) {
		return nil, fmt.Errorf("HTTP %s: %s", answer.Status, value.Clip(string(body), 1000))
	}
	return decode(body)
}

// Exchange is world.HTTP.
func (s *Services) Exchange(ctx context.Context, r world.ServiceRequest) (map[string]any, error) {
	answer, body, err := s.send(ctx, r)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	v, err := decode(body)
	m, isObject := v.(map[string]any)
	switch {
	case err != nil:
		out["body"] = nil
	case isObject:
		maps.Copy(out, m)
	default:
		out["body"] = v
	}
	out["statusCode"] = int64(answer.StatusCode)
	return out, nil
}

// send sends a request and returns the answer with its body.
func (s *Services) send(ctx context.Context, r world.ServiceRequest) (*http.Response, []byte, error) {
	u, err := s.check(r)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.timeout())
	defer cancel()
	req, err := newRequest(ctx, r.Method, u.String(), r.Body)
	if err != nil {
		return nil, nil, err
	}
	if err := s.addHeaders(req, r.Headers); err != nil {
		return nil, nil, err
	}
	client, err := s.client(r)
	if err != nil {
		return nil, nil, err
	}
	defer client.CloseIdleConnections()
	answer, err := client.Do(req)
	if err != nil {
		return nil, nil, fmt.Errorf("request failed: %w", err)
	}
	defer answer.Body.Close()
	body, err := s.options.read(answer)
	return answer, body, err
}

// check checks the URL as written; the address that it resolves to is checked when it is dialled.
func (s *Services) check(r world.ServiceRequest) (*url.URL, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return nil, fmt.Errorf("URL %q cannot be read: %w", r.URL, fetch.Bare(err))
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("URL %q is not permitted: it is neither http nor https", r.URL)
	case u.Hostname() == "" || u.Opaque != "":
		return nil, fmt.Errorf("URL %q is not permitted: it has no host", r.URL)
	case u.User != nil:
		return nil, fmt.Errorf("URL %q is not permitted: it holds a user", u.Redacted())
	case s.block.hasHost(u.Hostname()):
		return nil, fmt.Errorf("URL %q is blocked: hostname %q is on the blocklist", r.URL, u.Hostname())
	}
	if len(s.allow) == 0 && r.VariableHost {
		return nil, fmt.Errorf("URL %q is not permitted: its host comes from a variable, and there is no allowlist", r.URL)
	}
	return u, s.Permit(u)
}

// Permit returns the reason why the allowlist does not permit requests to u; nil if it does, or if there is no allowlist.
func (s *Services) Permit(u *url.URL) error {
	if len(s.allow) == 0 || slices.ContainsFunc(s.allow, func(a *url.URL) bool { return allows(a, u) }) {
		return nil
	}
	return fmt.Errorf("URL %q is not permitted: no matching allowlist entry", u)
}

// allows compares the URLs part by part: compared as texts, https://a.example would allow https://a.example.evil.
func allows(a, u *url.URL) bool {
	if a.Scheme != u.Scheme || hostName(a.Hostname()) != hostName(u.Hostname()) || port(a) != port(u) {
		return false
	}
	if slices.ContainsFunc(strings.Split(u.Path, "/"), func(s string) bool { return s == "." || s == ".." }) {
		return false
	}
	prefix := strings.TrimSuffix(a.Path, "/")
	rest, ok := strings.CutPrefix(u.Path, prefix)
	return ok && (rest == "" || rest[0] == '/' || a.Path != prefix && prefix == "")
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

func (s *Services) addHeaders(req *http.Request, headers []world.Header) error {
	for _, h := range headers {
		if strings.EqualFold(h.Name, "Host") {
			req.Host = h.Value
			continue
		}
		req.Header.Set(h.Name, h.Value)
	}
	if s.options.Token == nil || req.URL.Scheme != "https" || req.Header.Get("Authorization") != "" || !s.tokenHosts.hasHost(req.URL.Hostname()) {
		return nil
	}
	token, err := s.options.Token(req.Context())
	if err != nil {
		return fmt.Errorf("get the token for the service: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return nil
}

// client returns a client for one call: policies trust different certificates, and connections may not be shared between them.
func (s *Services) client(r world.ServiceRequest) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.CABundle != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(r.CABundle)) {
			return nil, errors.New("failed to parse PEM CA bundle for APICall")
		}
	}
	return &http.Client{
		CheckRedirect: refuseRedirects,
		Transport: &http.Transport{
			Proxy:                  nil, // a proxy would resolve the name again
			DialContext:            s.Dial,
			TLSClientConfig:        config,
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 64 << 10,
			ForceAttemptHTTP2:      true,
		},
	}, nil
}

// The time to connect to a name, and to one of its addresses if there are others.
const (
	dialTimeout    = 10 * time.Second
	addressTimeout = 3 * time.Second
)

// Dial connects to an address as calls do; packages that open their own connections use it, too. It checks the host, resolves it once, checks every
// address, and connects to an address that was checked, so a second answer of the name server changes nothing. An address that does not
// answer, as one of IPv6 where it is not routed, leaves time for the next one.
func (s *Services) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if s.block.hasHost(host) {
		return nil, errListed(host)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var addresses []netip.Addr
	if a, err := netip.ParseAddr(host); err == nil {
		addresses = []netip.Addr{a}
	} else if addresses, err = s.options.Lookup(ctx, host); err != nil {
		return nil, err
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("the name %s has no address", host)
	}
	for _, a := range addresses {
		if p, blocked := s.block.covering(a); blocked {
			return nil, fmt.Errorf("connection to %s blocked: IP %s falls in blocked range %s", address, a, p)
		}
	}
	var failures []error
	for n, a := range addresses {
		conn, err := s.dialOne(ctx, network, net.JoinHostPort(a.String(), port), len(addresses)-n)
		if err == nil {
			return conn, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

// dialOne connects to one of left addresses.
func (s *Services) dialOne(ctx context.Context, network, address string, left int) (net.Conn, error) {
	if end, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, min(addressTimeout, time.Until(end)/time.Duration(left)))
		defer cancel()
	}
	return s.dial(ctx, network, address)
}
