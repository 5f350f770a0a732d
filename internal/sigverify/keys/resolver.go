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

	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// Options configure the sources of keys. The zero Options allow keys in PEM and public endpoints of key services.
type Options struct {
	// Secret reads a Secret; nil if Secrets cannot be read.
	Secret func(ctx context.Context, namespace, name string) (map[string][]byte, error)
	// Namespace is the namespace of Secrets that are named without one.
	Namespace string
	// HTTP is the transport for key services and URLs that policies name. It must reject forbidden addresses; nil means the default transport.
	HTTP http.RoundTripper
	// Operator is the transport for addresses from the environment of this process: token servers, metadata services, Vault; nil means the
	// default transport.
	Operator http.RoundTripper
	// ConfinedLogin lets namespaced policies read keys of key services, which takes the identity of this process.
	ConfinedLogin bool
	// Permit returns the reason why a namespaced policy may not use a URL, or nil if it may. A nil Permit permits all URLs.
	Permit func(*url.URL) error
	// Now is the clock; nil means the system clock.
	Now func() time.Time
}

// Resolver finds keys. It is safe for concurrent use.
type Resolver struct {
	options Options
	unset   bool // Options.Operator was nil
	parsed  parsed
	asked   *asked
}

// New returns a Resolver.
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
	return &Resolver{options: o, unset: unset, asked: newAsked(o.Now)}
}

// Key returns the newest version of an attestor's public key; see All.
func (r *Resolver) Key(ctx context.Context, k *world.KeyAttestor, confined bool) (crypto.PublicKey, error) {
	all, err := r.All(ctx, k, confined)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// All returns the public keys that an attestor accepts, the newest version first. Key services keep the versions from before a
// rotation, and the images signed with them are still accepted. confined means that a namespaced policy sends the query.
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

// reference returns the keys to which a text refers.
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
			err = errConfined // a namespaced policy must name its Secret in the fields that are checked
			break
		}
		return r.secret(ctx, namespace, name)
	case scheme == "https" && confined:
		err = errors.New("keys of namespaced policies are not read from URLs")
	case fetch != nil && scheme != "https" && confined && !r.options.ConfinedLogin:
		err = errOperator
	case fetch != nil:
		transport := r.options.HTTP
		if scheme == "hashivault" {
			transport = r.options.Operator // the address of Vault comes from the environment
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

var errOperator = errors.New("key services are read with the identity of the installation, which is not for namespaced policies: write the public key into the policy or a Secret, " +
	"or set --namespacedPoliciesUseOperatorLogin")

var errConfined = errors.New("a namespaced policy names the Secret of its key in the field secret")

// refusal returns the reason why a reference does not name a key.
func refusal(scheme, ref string) error {
	switch {
	case scheme == "http":
		return errors.New("keys are read over https only")
	case scheme == "env":
		return errors.New("keys are not read from the environment of the controller: write the key itself, a Secret or a key service")
	case scheme == "gitlab" || strings.HasPrefix(ref, "pkcs11:"):
		return errors.New("such keys are not supported: write the key itself, a Secret or a key service")
	case strings.Contains(ref, "://"):
		return errors.New("the key service is unknown; awskms, gcpkms, azurekms and hashivault are supported")
	}
	return errors.New("keys are not read from files of the controller: write the key itself, a Secret or a key service")
}

// shown returns a reference in the form for errors: without user and query, and cut to a limited length.
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

// secretField is the field of a Secret that contains the key.
const secretField = "cosign.pub"

// secret reads a key from a Secret.
func (r *Resolver) secret(ctx context.Context, namespace, name string) ([]crypto.PublicKey, error) {
	key, err := func() (crypto.PublicKey, error) {
		switch {
		case namespace == "" || name == "" || strings.Contains(name, "/"):
			return nil, errors.New("a Secret must be named by its namespace and its name")
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

// permitted is a transport that sends only permitted requests.
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
