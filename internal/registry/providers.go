package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker-credential-helpers/client"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/authn/github"
	"golang.org/x/sync/semaphore"

	"ephor.invalid/ephor/internal/fetch"
)

// provider finds the login of this process for a repository; authn.Anonymous for none.
type provider func(ctx context.Context, c *Client, resource authn.Resource) (authn.Authenticator, error)

// providers are the sources of logins other than pull secrets. Those of clouds serve only the registries of their cloud.
var providers = map[string]provider{
	"default": fromKeychain(authn.DefaultKeychain),
	"github":  fromKeychain(github.Keychain),
	"google":  fromCloud(cloud{name: "google", serves: servedByGoogle, login: loginToGoogle, program: "gcloud"}),
	"amazon":  fromCloud(cloud{name: "amazon", serves: servedByAmazon, login: loginToAmazon, program: "ecr-login"}),
	"azure":   fromCloud(cloud{name: "azure", serves: servedByAzure, login: loginToAzure, program: "acr-env"}),
}

// CheckProviders returns an error for a provider that does not exist.
func CheckProviders(names []string) error {
	for _, n := range names {
		if providers[n] == nil {
			return fmt.Errorf("unknown provider of registry credentials %q: there are %s", n, strings.Join(slices.Sorted(maps.Keys(providers)), ", "))
		}
	}
	return nil
}

// fromKeychain is the provider of a keychain. It waits for the keychain for a limited time: a credential helper that docker's configuration names has
// no limit of its own, and may wait for a person. At most one call of the keychain runs at a time.
func fromKeychain(k authn.Keychain) provider {
	turn := semaphore.NewWeighted(1)
	return func(ctx context.Context, _ *Client, resource authn.Resource) (authn.Authenticator, error) {
		limit := helperTimeout
		if end, ok := ctx.Deadline(); ok {
			limit = min(limit, time.Until(end)/2) // the rest is for the registry, which may need no login
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		if err := turn.Acquire(ctx, 1); err != nil {
			return nil, err
		}
		var once fetch.Once[authn.Authenticator] // it ends the wait with ctx, and makes a panic an error
		return once.Get(ctx, func(ctx context.Context) (authn.Authenticator, error) {
			defer turn.Release(1)
			return authn.Resolve(ctx, k, resource)
		})
	}
}

// helperTimeout bounds the time of a credential helper that docker's configuration names.
const helperTimeout = 15 * time.Second

// cloud is a provider that uses the identity of this process in a cloud.
type cloud struct {
	name    string
	serves  func(host string) bool
	login   func(ctx context.Context, c *Client, host string) (cloudLogin, error)
	program string // docker-credential-⟨program⟩, if only the program knows the identity
}

// cloudLogin is a login from a cloud, with the time until which it can be used.
type cloudLogin struct {
	config  authn.AuthConfig
	expires time.Time
}

func fromCloud(p cloud) provider {
	return func(ctx context.Context, c *Client, resource authn.Resource) (authn.Authenticator, error) {
		host := resource.RegistryStr()
		if !p.serves(host) {
			return authn.Anonymous, nil
		}
		login, err := c.clouds.get(ctx, p.name+" "+host, func(ctx context.Context) (cloudLogin, error) {
			login, err := p.login(ctx, c, host)
			if err != nil {
				if fallback, ok := fromProgram(ctx, p.program, host); ok {
					return fallback, nil
				}
			}
			return login, err
		})
		if err != nil {
			return nil, err
		}
		return authn.FromConfig(login.config), nil
	}
}

// fromProgram runs a credential helper of docker if it is installed, as on developers' machines.
func fromProgram(ctx context.Context, program, host string) (cloudLogin, bool) {
	creds, err := client.Get(func(args ...string) client.Program {
		return helper{exec.CommandContext(ctx, "docker-credential-"+program, args...)}
	}, "https://"+host)
	if err != nil || creds.Username == "" && creds.Secret == "" {
		return cloudLogin{}, false
	}
	login := cloudLogin{config: authn.AuthConfig{Username: creds.Username, Password: creds.Secret}, expires: time.Now().Add(10 * time.Minute)}
	if creds.Username == "<token>" {
		login.config = authn.AuthConfig{IdentityToken: creds.Secret}
	}
	return login, true
}

// helper is a run of a credential helper whose output is limited.
type helper struct{ cmd *exec.Cmd }

// Input implements client.Program.
func (h helper) Input(in io.Reader) { h.cmd.Stdin = in }

// Output implements client.Program.
func (h helper) Output() ([]byte, error) {
	var out helperOutput
	h.cmd.Stdout, h.cmd.WaitDelay = &out, time.Second // in case its children keep the output open
	err := h.cmd.Run()
	return out.text, err
}

// helperOutput is what a credential helper writes. A program that writes more than a login may have gets an error.
type helperOutput struct{ text []byte }

const maxHelperOutput = 1 << 20

func (o *helperOutput) Write(p []byte) (int, error) {
	if len(o.text)+len(p) > maxHelperOutput {
		return 0, errors.New("the credential helper writes too much")
	}
	o.text = append(o.text, p...)
	return len(p), nil
}

// Time limits of logins to clouds.
const (
	cloudTimeout = 8 * time.Second // for one login
	expiryMargin = time.Minute     // time before its expiry at which a login or a token is no longer used
	noLoginFor   = time.Minute     // time for which a cloud is not tried again after a failure
	maxLogins    = 1000            // in the cache
)

// errNoLogin is the error of a cloud that gave no login.
var errNoLogin = errors.New("the cloud gave no login")

// logins caches the logins from clouds until shortly before they expire. A failure is cached for a minute, because most clusters in one cloud
// have no identity in the others.
type logins struct {
	fetch.Answers[string, cloudLogin]
}

func newLogins(now func() time.Time) *logins {
	return &logins{fetch.Answers[string, cloudLogin]{Now: now, Timeout: cloudTimeout, Retry: noLoginFor, Entries: maxLogins}}
}

func (l *logins) get(ctx context.Context, key string, login func(context.Context) (cloudLogin, error)) (cloudLogin, error) {
	return l.Get(ctx, key, func(ctx context.Context) (cloudLogin, time.Time, error) {
		got, err := login(ctx)
		if err != nil || !l.Now().Before(got.expires) {
			err = &fetch.GoneError{Err: errNoLogin} // the login before it expires, or has expired
		}
		return got, got.expires.Add(-expiryMargin), err
	})
}
