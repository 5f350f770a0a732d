package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"ephor.invalid/ephor/internal/fetch"
	"ephor.invalid/ephor/internal/world"
)

// Options define how registries are accessed. The zero Options are anonymous.
type Options struct {
	// Insecure allows registries without TLS, or with a certificate that is not trusted, for all images.
	Insecure bool
	// Providers are the sources of credentials unless a policy selects others: default, google, azure, amazon, github.
	Providers []string
	// PullSecrets are used for all images, as name or namespace/name.
	PullSecrets []string
	// ConfinedLogin lets namespaced policies use Providers, PullSecrets, and the providers that a policy names: the identity of this process.
	// Without it, they use Secrets of their namespace and of the object only.
	ConfinedLogin bool
	// Secret reads a pull secret by its namespace and name; nil if none can be read.
	Secret func(ctx context.Context, namespace, name string) (map[string][]byte, error)
	// ServiceAccount lists the pull secrets of a ServiceAccount; nil if none can be read.
	ServiceAccount func(ctx context.Context, namespace, name string) ([]string, error)
	// Namespace is the namespace of pull secrets that are given without one.
	Namespace string
	// Dial opens connections; nil for the default dialer. It must refuse forbidden addresses.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Permit returns the reason why a namespaced policy may not request a URL, nil if it may; a nil Permit permits all. It receives the
	// scheme and the host of each request to the registry with the path of the image's repository (/v2/⟨repository⟩).
	Permit func(*url.URL) error
	// Proxy chooses the proxy for a request, and rejects hosts that may not be reached. If it is nil, there is no proxy if Dial is set, and
	// otherwise the proxy of the environment.
	Proxy func(*http.Request) (*url.URL, error)
	// MaxBytes is the maximum size of an answer, and Timeout the maximum time for one image; 0 for the defaults.
	MaxBytes int64
	Timeout  time.Duration
	// Observe is called for each answer of a registry, or of the storage behind it, with its host, its status (0 if there was no answer),
	// and the time until its header arrived; nil for none.
	Observe func(host string, status int, took time.Duration)
}

// Default values of Options, and the maximum number of requests for one image: an index, a manifest, a configuration, each with a login and
// redirects.
const (
	DefaultMaxBytes = 4 << 20
	DefaultTimeout  = 30 * time.Second
	maxRequests     = 24
)

// maxSchemes is the number of hosts without TLS that are remembered, and schemeLives for how long: a registry may get TLS later.
const (
	maxSchemes  = 1024
	schemeLives = time.Hour
)

// Client accesses registries. It is safe for concurrent use.
type Client struct {
	options Options
	// secure and insecure keep connections, since most images need more than one request. Policies trust different certificates: a
	// connection without a trusted certificate serves only policies that allow it.
	secure, insecure *http.Transport
	schemes          fetch.Cache[string, string] // of hosts that need no TLS
	clouds           *logins
	tokens           *tokens
}

const userAgent = "ephor"

// New checks the options and returns a client.
func New(o Options) (*Client, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if err := CheckProviders(o.Providers); err != nil {
		return nil, err
	}
	for _, s := range o.PullSecrets {
		if _, _, err := splitSecret(s, o.Namespace); err != nil {
			return nil, err
		}
	}
	c := &Client{options: o, clouds: newLogins(time.Now), tokens: newTokens(time.Now), schemes: fetch.Cache[string, string]{Now: time.Now, Entries: maxSchemes}}
	c.secure, c.insecure = c.transport(false), c.transport(true)
	return c, nil
}

// Ask describes the requests of one session, about one image.
type Ask struct {
	Image world.ImageRequest
	// Repositories are further repositories for the image, such as the one that holds its signatures.
	Repositories []string
	// Requests is the maximum number of requests; 0 for the number that the image itself needs.
	Requests int
	// MaxBytes is the maximum size of an answer, if it is larger than that of the Client.
	MaxBytes int64
	// Timeout is the maximum time for all requests, if it is longer than that of the Client.
	Timeout time.Duration
}

// Session sends requests about one image, until Close. It counts them against the limits of the Ask.
type Session struct {
	// Image is the parsed reference.
	Image name.Reference
	// Repositories are those of the Ask, parsed.
	Repositories []name.Repository

	client    *Client
	keys      *credentials
	transport http.RoundTripper // without login
	doors

	options []remote.Option
	close   func()
}

// Options returns the options for requests of go-containerregistry's package remote: login, limits, and the transport.
func (s *Session) Options() []remote.Option { return s.options }

// Close ends the session: its Options become useless. Fetch continues to work.
func (s *Session) Close() { s.close() }

// Open starts a session for an image: it finds the credentials, and bounds all requests, including their time. It sends no request yet.
func (c *Client) Open(ctx context.Context, ask Ask) (*Session, error) {
	insecure := c.options.Insecure || ask.Image.Insecure
	var options []name.Option
	if insecure {
		options = append(options, name.Insecure)
	}
	s := &Session{client: c}
	var err error
	if s.Image, err = name.ParseReference(ask.Image.Reference, options...); err != nil {
		return nil, err
	}
	for _, text := range ask.Repositories {
		repository, err := name.NewRepository(text, options...)
		if err != nil {
			return nil, err
		}
		s.Repositories = append(s.Repositories, repository)
	}
	if err := c.check(ask.Image); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, max(c.options.Timeout, ask.Timeout))
	s.keys = &credentials{client: c, req: ask.Image}
	shared := c.secure
	if insecure {
		shared = c.insecure
	}
	s.close = cancel
	s.transport = &limited{
		next: c.permitted(ask.Image, append([]name.Repository{s.Image.Context()}, s.Repositories...), &remembered{tokens: c.tokens, space: strconv.FormatBool(insecure), next: c.watch(shared)}),
		max:  max(c.options.MaxBytes, ask.MaxBytes), requests: int64(cmp.Or(ask.Requests, maxRequests)),
	}
	s.options = []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(s.keys), remote.WithUserAgent(userAgent), remote.WithJobs(1),
		remote.WithTransport(&patient{next: s.transport}),
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}), remote.WithRetryStatusCodes(),
	}
	return s, nil
}

// permitted calls Permit for the requests of a namespaced policy.
func (c *Client) permitted(req world.ImageRequest, repositories []name.Repository, next http.RoundTripper) http.RoundTripper {
	if !req.Confined || c.options.Permit == nil {
		return next
	}
	paths := map[string][]string{}
	for _, r := range repositories {
		paths[r.RegistryStr()] = append(paths[r.RegistryStr()], "/v2/"+r.RepositoryStr())
	}
	return &bounded{next: next, permit: c.options.Permit, paths: paths}
}

// transport opens connections.
func (c *Client) transport(insecure bool) *http.Transport {
	return &http.Transport{
		Proxy:                  c.proxy(),
		DialContext:            c.options.Dial,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure}, //nolint:gosec // asked for by flag or policy
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  c.options.Timeout,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost:    8,
		MaxIdleConns:           64,
		IdleConnTimeout:        30 * time.Second,
		ForceAttemptHTTP2:      true,
	}
}

// proxy returns the proxy in the options. Without one it returns that of the environment, unless addresses are checked when they are
// dialled, because a proxy would dial them itself.
func (c *Client) proxy() func(*http.Request) (*url.URL, error) {
	if c.options.Proxy != nil || c.options.Dial != nil {
		return c.options.Proxy
	}
	return http.ProxyFromEnvironment
}
