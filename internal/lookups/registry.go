package lookups

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/apicall"
	"ephor.invalid/ephor/internal/observe"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/registry"
	"ephor.invalid/ephor/internal/sigcache"
	"ephor.invalid/ephor/internal/world"
)

// RegistryFlags configure the access to image registries.
type RegistryFlags struct {
	insecure    bool
	pullSecrets []string
	helpers     []string
	revocation  bool // check the revocation of Notary certificates
	// remember: answers about signatures are cached. answers is the maximum number of cached answers, and ttl the time for which each is
	// cached.
	remember bool
	// confinedLogin: namespaced policies may use pullSecrets, helpers and key services.
	confinedLogin bool
	answers       int
	ttl           time.Duration
	proxy         string
	trust         trustFlags

	via *apicall.Proxy
}

// Register adds the flags.
func (f *RegistryFlags) Register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.insecure, "allowInsecureRegistry", false, "allow registries without TLS or with an untrusted certificate")
	fs.StringSliceVar(&f.pullSecrets, "imagePullSecrets", nil, "pull secrets that apply to all registries, as name or namespace/name")
	fs.BoolVar(&f.confinedLogin, "namespacedPoliciesUseOperatorLogin", false, "let namespaced policies use --imagePullSecrets, --registryCredentialHelpers, and the cloud identity of the controller for registries and key services; otherwise they use Secrets of their own namespace and of the object only")
	fs.BoolVar(&f.revocation, "notaryRevocation", true, "check whether the certificates of Notary signatures are revoked (OCSP, revocation lists); set it to false where no responder can be reached: revoked certificates are then accepted")
	fs.StringSliceVar(&f.helpers, "registryCredentialHelpers", nil, "additional sources of registry credentials: default, google, amazon, azure, github; empty for default")
	fs.BoolVar(&f.remember, "imageVerifyCacheEnabled", true, "cache which image digests are signed and, for half a minute, which are not")
	fs.IntVar(&f.answers, "imageVerifyCacheMaxSize", sigcache.DefaultSize, "maximum number of cached verification results")
	fs.DurationVar(&f.ttl, "imageVerifyCacheTTLDuration", sigcache.DefaultTTL, "how long the result that a digest is signed is cached")
	fs.StringVar(&f.proxy, "registryProxy", "", "proxy for registries, transparency logs and trust roots: a URL, or environment to use HTTPS_PROXY; NO_PROXY is respected. With a proxy, hosts are checked by name. Empty for no proxy, even if the environment sets one")
	f.trust.register(fs)
}

// Complete validates the names.
func (f *RegistryFlags) Complete() error {
	if f.answers < 0 || f.ttl < 0 {
		return errors.New("--imageVerifyCacheMaxSize and --imageVerifyCacheTTLDuration must not be negative")
	}
	var err error
	if f.via, err = apicall.NewProxy(f.proxy); err != nil {
		return fmt.Errorf("--registryProxy: %w", err)
	}
	if _, err := registry.New(f.options("namespace", nil, nil)); err != nil {
		return fmt.Errorf("--imagePullSecrets, --registryCredentialHelpers: %w", err)
	}
	return f.trust.complete()
}

// options returns the registry options. secrets reads the pull secrets. Connections have the same restrictions as calls to services: the
// blocklist applies to registries, too, and an allowlist limits the registries of namespaced policies.
func (f *RegistryFlags) options(namespace string, secrets client.Reader, services *apicall.Services) registry.Options {
	o := registry.Options{Insecure: f.insecure, Providers: f.helpers, PullSecrets: f.pullSecrets, Namespace: namespace, ConfinedLogin: f.confinedLogin}
	if len(o.Providers) == 0 {
		o.Providers = []string{"default"}
	}
	if services != nil {
		var t http.Transport
		services.Via(f.via, &t)
		o.Dial, o.Proxy, o.Permit = t.DialContext, t.Proxy, services.Permit
	}
	if secrets != nil {
		o.Secret = func(ctx context.Context, namespace, name string) (map[string][]byte, error) {
			var s corev1.Secret
			if err := secrets.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &s); err != nil {
				return nil, err
			}
			return s.Data, nil
		}
		o.ServiceAccount = func(ctx context.Context, namespace, name string) ([]string, error) {
			var a corev1.ServiceAccount
			if err := secrets.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &a); err != nil {
				return nil, err
			}
			var names []string
			for _, s := range a.ImagePullSecrets {
				names = append(names, s.Name)
			}
			return names, nil
		}
	}
	return o
}

// Withholds reports whether the installation has logins that the policy may not use because it is namespaced.
func (f *RegistryFlags) Withholds(p *policy.Program) bool {
	own := len(f.pullSecrets) > 0 || slices.ContainsFunc(f.helpers, func(h string) bool { return h != "default" })
	return own && !f.confinedLogin && p != nil && p.Namespace != "" && p.Registries()
}

// remembering returns the verifier with a cache for its answers, unless the flags disable the cache.
func (f *RegistryFlags) remembering(next world.Signatures, m *observe.Metrics) world.Signatures {
	if next == nil || !f.remember {
		return next
	}
	return sigcache.New(next, sigcache.Options{Size: f.answers, TTL: f.ttl, Now: time.Now, Observe: m.SignatureAnswer})
}
