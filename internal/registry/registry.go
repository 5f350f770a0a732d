package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
	// Namespace is that of pull secrets which name none.
	Namespace string
	// Dial makes connections; nil for the machine's way. It refuses forbidden addresses.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Permit says why a namespaced policy may not ask for a URL, nil when it may; a nil Permit permits all. It gets the
	// scheme and the host of each request to the registry with the path of the image's repository (/v2/⟨repository⟩).
	Permit func(*url.URL) error
	// MaxBytes is the longest answer that is read, and Timeout the longest time that one image takes; 0 for the defaults.
	MaxBytes int64
	Timeout  time.Duration
}

// Defaults of Options, and how many requests one image may take: an index, a manifest, a configuration, each with a login
// and redirects.
const (
	DefaultMaxBytes = 4 << 20
	DefaultTimeout  = 30 * time.Second
	maxRequests     = 24
)

// Registries asks registries. It is safe for all goroutines.
type Registries struct{ options Options }

var _ world.Images = (*Registries)(nil)

// New checks the options.
func New(o Options) (*Registries, error) {
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
	return &Registries{o}, nil
}

// Image implements world.Images.
func (r *Registries) Image(ctx context.Context, req world.ImageRequest) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	insecure := r.options.Insecure || req.Insecure
	var options []name.Option
	if insecure {
		options = append(options, name.Insecure)
	}
	ref, err := name.ParseReference(req.Reference, options...)
	if err != nil {
		return nil, err
	}
	keys, err := r.keychain(ctx, req)
	if err != nil {
		return nil, err
	}
	transport := r.transport(insecure)
	defer transport.CloseIdleConnections()
	ask := []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(keys), remote.WithUserAgent("ephor"), remote.WithJobs(1),
		remote.WithTransport(&limited{next: r.permitted(req, ref, transport), max: r.options.MaxBytes}),
		remote.WithRetryBackoff(remote.Backoff{Steps: 1}), remote.WithRetryStatusCodes(),
	}
	data, err := describe(ref, ask)
	if err != nil {
		return nil, bare(err)
	}
	data["image"] = req.Reference
	return data, nil
}

// permitted asks Permit about the requests of a namespaced policy.
func (r *Registries) permitted(req world.ImageRequest, ref name.Reference, next http.RoundTripper) http.RoundTripper {
	if !req.Confined || r.options.Permit == nil {
		return next
	}
	return &bounded{next: next, permit: r.options.Permit, host: ref.Context().RegistryStr(), path: "/v2/" + ref.Context().RepositoryStr()}
}

// transport makes the connections for one image. They are not shared: what may be trusted differs from policy to policy.
func (r *Registries) transport(insecure bool) *http.Transport {
	return &http.Transport{
		Proxy:                  r.proxy(),
		DialContext:            r.options.Dial,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure}, //nolint:gosec // asked for by flag or policy
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  r.options.Timeout,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
	}
}

// proxy is that of the environment, unless addresses are checked when they are dialled: a proxy would dial them itself.
func (r *Registries) proxy() func(*http.Request) (*url.URL, error) {
	if r.options.Dial != nil {
		return nil
	}
	return http.ProxyFromEnvironment
}

// keychain looks for credentials in pull secrets first, those of the policy before those of all policies.
func (r *Registries) keychain(ctx context.Context, req world.ImageRequest) (authn.Keychain, error) {
	var keys []authn.Keychain
	for _, secret := range slices.Concat(req.Secrets, r.options.PullSecrets) {
		namespace, name, err := splitSecret(secret, r.options.Namespace)
		if err != nil {
			return nil, err
		}
		if r.options.Secret == nil {
			return nil, fmt.Errorf("pull secret %s: secrets are %w", secret, world.ErrUnavailable)
		}
		data, err := r.options.Secret(ctx, namespace, name)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			continue // as for the kubelet: perhaps the image needs none, else the registry says so
		}
		if err != nil {
			return nil, fmt.Errorf("pull secret %s: %w", secret, err)
		}
		k, err := parsePullSecret(data)
		if err != nil {
			return nil, fmt.Errorf("pull secret %s: %w", secret, err)
		}
		keys = append(keys, k)
	}
	providers := req.Providers
	if len(providers) == 0 {
		providers = r.options.Providers
	}
	if err := CheckProviders(providers); err != nil {
		return nil, err
	}
	for _, p := range providers {
		keys = append(keys, keychains[p])
	}
	return authn.NewMultiKeychain(keys...), nil
}

// bare takes the address of each request out of an error: it may hold a token.
func bare(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) && u.Err != nil {
		return u.Err
	}
	return err
}
