package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"ephor.invalid/ephor/internal/world"
)

// maxObjectSecrets is the maximum number of pull secrets that are read for one object, or for its ServiceAccount.
const maxObjectSecrets = 16

// credentials finds the login for one request. It uses the first of these sources that has a login for a repository: the pull secrets
// of the policy, of the object and of its ServiceAccount, the providers of the policy, and finally the pull secrets and the providers
// for all images. It tries a source only if those before it have no login. The sources with the identity of this process are not for
// namespaced policies, unless Options.ConfinedLogin is set.
type credentials struct {
	client *Client
	req    world.ImageRequest

	mu    sync.Mutex
	known map[string]authn.Authenticator // by repository
	// secrets are the secrets that were read, or the reason why they could not be.
	secrets map[string]secretRead
	// without lists the sources that could not be used, with the reason; never their content.
	without []string
}

var _ authn.ContextKeychain = (*credentials)(nil)

// check finds mistakes in a request before anything is sent.
func (c *Client) check(req world.ImageRequest) error {
	for _, s := range req.Secrets {
		if _, _, err := splitSecret(s, c.options.Namespace); err != nil {
			return err
		}
		if c.options.Secret == nil {
			return fmt.Errorf("pull secret %s: secrets are %w", s, world.ErrUnavailable)
		}
	}
	return CheckProviders(req.Providers)
}

// Resolve implements authn.Keychain.
func (c *credentials) Resolve(resource authn.Resource) (authn.Authenticator, error) {
	return c.ResolveContext(context.Background(), resource)
}

// ResolveContext implements authn.ContextKeychain.
func (c *credentials) ResolveContext(ctx context.Context, resource authn.Resource) (authn.Authenticator, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.known[resource.String()]; known != nil {
		return known, nil
	}
	found, err := c.find(ctx, resource)
	if err != nil {
		return nil, err
	}
	if c.known == nil {
		c.known = map[string]authn.Authenticator{}
	}
	c.known[resource.String()] = found
	return found, nil
}

func (c *credentials) find(ctx context.Context, resource authn.Resource) (authn.Authenticator, error) {
	sources := []func(context.Context, authn.Resource) (authn.Authenticator, error){c.named(c.req.Secrets), c.object}
	if o := &c.client.options; !c.req.Confined || o.ConfinedLogin {
		sources = append(sources, c.provided(c.req.Providers), c.named(o.PullSecrets), c.provided(o.Providers))
	} else {
		sources = append(sources, c.confined)
	}
	for _, source := range sources {
		found, err := source(ctx, resource)
		if err != nil {
			return nil, err
		}
		if found != authn.Anonymous {
			return found, nil
		}
	}
	return authn.Anonymous, nil
}

// named searches pull secrets that the policy or the operator names. It ignores a missing one; one that cannot be read is an error,
// because it is unknown which login it contains.
func (c *credentials) named(names []string) func(context.Context, authn.Resource) (authn.Authenticator, error) {
	return func(ctx context.Context, resource authn.Resource) (authn.Authenticator, error) {
		for _, text := range names {
			namespace, name, err := splitSecret(text, c.client.options.Namespace)
			if err != nil {
				return nil, err
			}
			secret, err := c.secret(ctx, namespace, name)
			if apierrors.IsNotFound(err) {
				c.leave("pull secret " + namespace + "/" + name + " does not exist")
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("failed to fetch secrets: pull secret %s/%s: %w", namespace, name, err)
			}
			if found, err := secret.Resolve(resource); err != nil || found != authn.Anonymous {
				return found, err
			}
		}
		return authn.Anonymous, nil
	}
}

// confined has no login: it notes why those of the operator are not used.
func (c *credentials) confined(context.Context, authn.Resource) (authn.Authenticator, error) {
	c.leave("the installation's own credentials are not for namespaced policies (--namespacedPoliciesUseOperatorLogin)")
	return authn.Anonymous, nil
}

// object searches the pull secrets of the object and of its ServiceAccount. The object's author chooses them, so those that cannot be
// used are ignored, as the kubelet does: without a login the registry denies images that are not public.
func (c *credentials) object(ctx context.Context, resource authn.Resource) (authn.Authenticator, error) {
	o := c.req.Object
	if o.Namespace == "" || c.client.options.Secret == nil {
		return authn.Anonymous, nil
	}
	if found, err := c.ofObject(ctx, o.Namespace, o.Names, resource); err != nil || found != authn.Anonymous {
		return found, err
	}
	if c.client.options.ServiceAccount == nil {
		return authn.Anonymous, nil
	}
	account := o.ServiceAccount
	if account == "" {
		account = "default"
	}
	names, err := c.client.options.ServiceAccount(ctx, o.Namespace, account)
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		c.leave(fmt.Sprintf("service account %s/%s cannot be read (%s)", o.Namespace, account, apierrors.ReasonForError(err)))
		return authn.Anonymous, nil
	case err != nil:
		return nil, fmt.Errorf("failed to fetch secrets: service account %s/%s: %w", o.Namespace, account, err)
	}
	return c.ofObject(ctx, o.Namespace, names, resource)
}

func (c *credentials) ofObject(ctx context.Context, namespace string, names []string, resource authn.Resource) (authn.Authenticator, error) {
	for _, name := range names[:min(len(names), maxObjectSecrets)] {
		if name == "" || strings.Contains(name, "/") {
			continue // not a valid name of a Secret
		}
		secret, err := c.secret(ctx, namespace, name)
		var unusable *secretError
		switch {
		case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
			c.leave(fmt.Sprintf("pull secret %s/%s cannot be read (%s)", namespace, name, apierrors.ReasonForError(err)))
			continue
		case errors.As(err, &unusable):
			c.leave(fmt.Sprintf("pull secret %s/%s cannot be used (%s)", namespace, name, unusable.why))
			continue
		case err != nil:
			return nil, fmt.Errorf("failed to fetch secrets: pull secret %s/%s: %w", namespace, name, err)
		}
		if found, err := secret.Resolve(resource); err != nil || found != authn.Anonymous {
			return found, err
		}
	}
	return authn.Anonymous, nil
}

// secret reads a pull secret once.
func (c *credentials) secret(ctx context.Context, namespace, name string) (pullSecret, error) {
	if c.client.options.Secret == nil {
		return nil, fmt.Errorf("secrets are %w", world.ErrUnavailable)
	}
	key := namespace + "/" + name
	if known, ok := c.secrets[key]; ok {
		return known.secret, known.err
	}
	var read secretRead
	data, err := c.client.options.Secret(ctx, namespace, name)
	if err != nil {
		read.err = err
	} else if read.secret, err = parsePullSecret(data); err != nil {
		read.err = &secretError{err.Error()}
	}
	if c.secrets == nil {
		c.secrets = map[string]secretRead{}
	}
	c.secrets[key] = read
	return read.secret, read.err
}

type secretRead struct {
	secret pullSecret
	err    error
}

// secretError is the reason why a Secret is not a pull secret.
type secretError struct{ why string }

func (e *secretError) Error() string { return e.why }

// provided gets credentials from providers.
func (c *credentials) provided(names []string) func(context.Context, authn.Resource) (authn.Authenticator, error) {
	return func(ctx context.Context, resource authn.Resource) (authn.Authenticator, error) {
		for _, name := range names {
			found, err := providers[name](ctx, c.client, resource)
			if errors.Is(err, context.DeadlineExceeded) {
				c.leave("credentials of " + name + " are not available in time")
				continue
			}
			if err != nil {
				c.leave("credentials of " + name + " are not available")
				continue
			}
			if found != authn.Anonymous {
				return found, nil
			}
		}
		return authn.Anonymous, nil
	}
}

func (c *credentials) leave(why string) {
	if !slices.Contains(c.without, why) {
		c.without = append(c.without, why)
	}
}

// missing returns the sources that could not be used.
func (c *credentials) missing() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.without)
}
