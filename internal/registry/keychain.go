package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker/docker-credential-helpers/client"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/authn/github"
)

// keychains are the providers of credentials. Those of clouds run the credential helpers of docker, when they are
// installed, for the registries of their cloud only.
var keychains = map[string]authn.Keychain{
	"default": authn.DefaultKeychain,
	"github":  github.Keychain,
	"google": helper{"gcloud", func(host string) bool {
		return host == "gcr.io" || strings.HasSuffix(host, ".gcr.io") || strings.HasSuffix(host, ".pkg.dev")
	}},
	"amazon": helper{"ecr-login", func(host string) bool {
		return host == "public.ecr.aws" || strings.Contains(host, ".dkr.ecr") && (strings.HasSuffix(host, ".amazonaws.com") || strings.HasSuffix(host, ".amazonaws.com.cn"))
	}},
	"azure": helper{"acr-env", func(host string) bool {
		return slices.ContainsFunc([]string{".azurecr.io", ".azurecr.cn", ".azurecr.de", ".azurecr.us"}, func(s string) bool { return strings.HasSuffix(host, s) })
	}},
}

// CheckProviders returns an error that names a provider which does not exist.
func CheckProviders(names []string) error {
	for _, n := range names {
		if keychains[n] == nil {
			return fmt.Errorf("unknown provider of registry credentials %q: there are %s", n, strings.Join(slices.Sorted(maps.Keys(keychains)), ", "))
		}
	}
	return nil
}

// helper is a credential helper of docker for the registries of a cloud.
type helper struct {
	program string // docker-credential-⟨program⟩
	serves  func(host string) bool
}

// Resolve implements authn.Keychain. Without the program, or without credentials, the request is anonymous.
func (h helper) Resolve(resource authn.Resource) (authn.Authenticator, error) {
	host := resource.RegistryStr()
	if !h.serves(host) {
		return authn.Anonymous, nil
	}
	creds, err := client.Get(client.NewShellProgramFunc("docker-credential-"+h.program), "https://"+host)
	if err != nil || creds.Username == "" && creds.Secret == "" {
		return authn.Anonymous, nil //nolint:nilerr // the registry says what it thinks of that
	}
	if creds.Username == "<token>" {
		return authn.FromConfig(authn.AuthConfig{IdentityToken: creds.Secret}), nil
	}
	return authn.FromConfig(authn.AuthConfig{Username: creds.Username, Password: creds.Secret}), nil
}
