package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/ephor-dev/ephor/internal/world"
)

// Options say how registries are asked. The zero Options are anonymous.
type Options struct {
	// Insecure allows registries without TLS, or with a certificate that is not trusted, for all images.
	Insecure bool
	// Providers are where credentials come from unless a policy names others: default, google, azure, amazon, github.
	Providers []string
	// PullSecrets are used for all images, as name or namespace/name.
	PullSecrets []string
	// Secret reads a pull secret by its namespace and name; nil where there are none to read.
	Secret func(ctx context.Context, namespace, name string) (map[string][]byte, error)
	// ServiceAccount lists the pull secrets of a ServiceAccount; nil where there are none to read.
	ServiceAccount func(ctx context.Context, namespace, name string) ([]string, error)
	// Namespace is that of pull secrets which name none.
	Namespace string
	// Dial makes connections; nil for the machine's way. It refuses forbidden addresses.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Permit says why a namespaced policy may not ask for a URL, nil when it may; a nil Permit permits all. It gets the
	// scheme and the host of each request to the registry with the path of the image's repository (/v2/⟨repository⟩).
	Permit func(*url.URL) error
	// Proxy chooses the proxy of a request, and refuses hosts that may not be asked; nil for none where Dial is set, and otherwise for
	// that of the environment.
	Proxy func(*http.Request) (*url.URL, error)
	// MaxBytes is the longest answer that is read, and Timeout the longest time that one image takes; 0 for the defaults.
	MaxBytes int64
	Timeout  time.Duration
	// Observe is called for each answer of a registry, or of the storage behind it: with its host, its status (0: there was no answer), and the time
	// until its header was there; nil for nothing.
	Observe func(host string, status int, took time.Duration)
}

// Defaults of Options, and how many requests one image may take: an index, a manifest, a configuration, each with a login
// and redirects.
const (
	DefaultMaxBytes = 4 << 20
	DefaultTimeout  = 30 * time.Second
	maxRequests     = 24
)

// Client asks registries. It is safe for all goroutines.
type Client struct {
	options Options
	// secure and insecure keep connections, since most images are asked about more than once. What may be trusted differs from
	// policy to policy: a connection without a trusted certificate serves only those that allow it.
	secure, insecure *http.Transport
	schemes          sync.Map // of hosts that need no TLS, once they were asked
	clouds           *logins
	tokens           *tokens
}

const userAgent = "ephor"

// New checks the options.
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
	c := &Client{options: o, clouds: &logins{now: time.Now}, tokens: &tokens{now: time.Now}}
	c.secure, c.insecure = c.transport(false), c.transport(true)
	return c, nil
}

// Ask is what is asked of registries together: about one image.
type Ask struct {
	Image world.ImageRequest
	// Repositories are others that are asked for the image, such as the one that holds its signatures.
	Repositories []string
	// Requests is how many requests all of it may take; 0 for those that the image itself takes.
	Requests int
	// MaxBytes is the longest answer that is read, where that is more than the Client reads.
	MaxBytes int64
}

// Session asks registries about one image, until Close; what it was opened for counts its requests.
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

// Options are what requests of go-containerregistry's package remote take: login, limits, and the transport.
func (s *Session) Options() []remote.Option { return s.options }

// Close ends the session: its Options are of no use any more. Fetch goes on.
func (s *Session) Close() { s.close() }

// Open begins to ask about an image: it finds the credentials and bounds everything that is asked, in time too. It sends no
// request yet.
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
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
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

// permitted asks Permit about the requests of a namespaced policy.
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

// transport makes connections.
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

// proxy is the one of the options. Without one it is that of the environment, unless addresses are checked when they are dialled: a
// proxy would dial them itself.
func (c *Client) proxy() func(*http.Request) (*url.URL, error) {
	if c.options.Proxy != nil || c.options.Dial != nil {
		return c.options.Proxy
	}
	return http.ProxyFromEnvironment
}
