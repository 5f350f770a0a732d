package keys

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ephor-dev/ephor/internal/value"
	"github.com/ephor-dev/ephor/internal/world"
)

// Options say where keys may come from. The zero Options know keys in PEM and public endpoints of key services.
type Options struct {
	// Secret reads a Secret; nil where there are none to read.
	Secret func(ctx context.Context, namespace, name string) (map[string][]byte, error)
	// Namespace is that of Secrets which name none.
	Namespace string
	// HTTP asks key services and URLs that policies name; nil for the machine's way. It refuses forbidden addresses.
	HTTP http.RoundTripper
	// Operator asks what the environment of this process names: servers of tokens, metadata services, Vault; nil for the machine's way.
	Operator http.RoundTripper
	// Permit says why a namespaced policy may not ask for a URL, nil when it may; a nil Permit permits all.
	Permit func(*url.URL) error
	// Now is the clock; nil for the machine's.
	Now func() time.Time
}

// Resolver finds keys. It is safe for all goroutines.
type Resolver struct {
	options Options
	unset   bool // Options.Operator was nil
	parsed  parsed
	asked   asked
}

// New gives a Resolver.
func New(o Options) *Resolver {
	unset := o.Operator == nil
	if o.HTTP == nil {
		o.HTTP = http.DefaultTransport
	}
	if o.Operator == nil {
		o.Operator = http.DefaultTransport
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Resolver{options: o, unset: unset, asked: asked{now: o.Now}}
}

// Key finds the public key of an attestor, the newest version of it; see All.
func (r *Resolver) Key(ctx context.Context, k *world.KeyAttestor, confined bool) (crypto.PublicKey, error) {
	all, err := r.All(ctx, k, confined)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// All finds the public keys that an attestor accepts, the newest version first: a key service keeps the versions of before a rotation,
// and images that they signed are still signed. confined marks the question of a namespaced policy.
func (r *Resolver) All(ctx context.Context, k *world.KeyAttestor, confined bool) ([]crypto.PublicKey, error) {
	text := strings.TrimSpace(k.PublicKey)
	switch {
	case strings.HasPrefix(text, "-----BEGIN "):
		key, err := r.parsed.key(text)
		if err != nil {
			return nil, fmt.Errorf("failed to load public key from PEM: %w", err)
		}
		return []crypto.PublicKey{key}, nil
	case text != "":
		return r.reference(ctx, text, confined)
	case k.SecretName != "":
		namespace := k.SecretNamespace
		if namespace == "" && !confined {
			namespace = r.options.Namespace
		}
		return r.secret(ctx, namespace, k.SecretName)
	case strings.TrimSpace(k.KMS) != "":
		return r.reference(ctx, strings.TrimSpace(k.KMS), confined)
	}
	return nil, errors.New("failed to load public key: neither a key, a secret nor a key service is named")
}

// reference finds the keys that a text names.
func (r *Resolver) reference(ctx context.Context, ref string, confined bool) ([]crypto.PublicKey, error) {
	scheme, rest, _ := strings.Cut(ref, "://")
	fetch := map[string]func(context.Context, string, http.RoundTripper) ([]crypto.PublicKey, error){
		"awskms": r.aws, "gcpkms": r.google, "azurekms": r.azure, "hashivault": r.vault, "https": r.https,
	}[scheme]
	var keys []crypto.PublicKey
	var err error
	switch {
	case scheme == "k8s":
		namespace, name, _ := strings.Cut(rest, "/")
		if confined {
			err = errConfined // a confined request names its Secrets in the fields that are checked
			break
		}
		return r.secret(ctx, namespace, name)
	case scheme == "https" && confined:
		err = errors.New("keys of namespaced policies are not read from URLs")
	case fetch != nil:
		transport := r.options.HTTP
		if scheme == "hashivault" {
			transport = r.options.Operator // its address comes from the environment
		}
		if confined && r.options.Permit != nil {
			transport = permitted{transport, r.options.Permit}
		}
		keys, err = r.asked.get(ctx, question{ref, confined}, func(ctx context.Context) ([]crypto.PublicKey, error) {
			return fetch(ctx, ref, transport)
		})
	default:
		err = refusal(scheme, ref)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to load public key from %s: %w", shown(ref), err)
	}
	return keys, nil
}

var errConfined = errors.New("a namespaced policy names the Secret of its key in the field secret")

// refusal says why a reference names no key.
func refusal(scheme, ref string) error {
	switch {
	case scheme == "http":
		return errors.New("keys are read over https only")
	case scheme == "env":
		return errors.New("keys are not read from the environment of the controller: write the key itself, a Secret or a key service")
	case scheme == "gitlab" || strings.HasPrefix(ref, "pkcs11:"):
		return errors.New("such keys are not supported: write the key itself, a Secret or a key service")
	case strings.Contains(ref, "://"):
		return errors.New("the key service is not known: awskms, gcpkms, azurekms and hashivault are")
	}
	return errors.New("keys are not read from files of the controller: write the key itself, a Secret or a key service")
}

// shown is a reference as errors show it: without a user, a query, and what is too long for a name.
func shown(ref string) string {
	if scheme, rest, named := strings.Cut(ref, "://"); named {
		rest, _, _ = strings.Cut(rest, "?")
		rest, _, _ = strings.Cut(rest, "#")
		host, path, _ := strings.Cut(rest, "/")
		if at := strings.LastIndex(host, "@"); at >= 0 {
			host = host[at+1:]
		}
		if ref = scheme + "://" + host; strings.Contains(rest, "/") {
			ref += "/" + path
		}
	}
	return value.Clip(strings.ReplaceAll(ref, "\n", " "), 200)
}

// secretField is the field of a Secret that holds the key.
const secretField = "cosign.pub"

// secret reads a key from a Secret.
func (r *Resolver) secret(ctx context.Context, namespace, name string) ([]crypto.PublicKey, error) {
	key, err := func() (crypto.PublicKey, error) {
		switch {
		case namespace == "" || name == "" || strings.Contains(name, "/"):
			return nil, errors.New("a Secret is named by its namespace and its name")
		case r.options.Secret == nil:
			return nil, fmt.Errorf("secrets are %w", world.ErrUnavailable)
		}
		data, err := r.options.Secret(ctx, namespace, name)
		if err != nil {
			return nil, err
		}
		text, has := data[secretField]
		if !has {
			return nil, errors.New("the Secret has no " + secretField)
		}
		return r.parsed.key(string(text))
	}()
	if err != nil {
		return nil, fmt.Errorf("failed to load public key from %s: %w", shown("k8s://"+namespace+"/"+name), err)
	}
	return []crypto.PublicKey{key}, nil
}

// permitted sends no request that is not permitted.
type permitted struct {
	next   http.RoundTripper
	permit func(*url.URL) error
}

// RoundTrip implements http.RoundTripper.
func (p permitted) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := p.permit(req.URL); err != nil {
		return nil, err
	}
	return p.next.RoundTrip(req)
}
