package registry

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
)

// splitSecret splits name or namespace/name; it ignores leading slashes, as Kyverno does.
func splitSecret(text, namespace string) (ns, name string, err error) {
	ns, name, named := strings.Cut(strings.TrimLeft(strings.TrimSpace(text), "/"), "/")
	if !named {
		ns, name = namespace, ns
	}
	if ns == "" || name == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("pull secret %q is neither name nor namespace/name", text)
	}
	return ns, name, nil
}

// pullSecret holds the logins of a Secret, the longest paths first.
type pullSecret []login

// login is one login, for a host (with wildcards) and a path below it.
type login struct {
	host, path string
	config     authn.AuthConfig
}

// registryAuth is one registry in the JSON of a pull secret.
type registryAuth struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// Keys of the two types of pull secrets.
const (
	dockerConfigJSON = ".dockerconfigjson"
	dockerConfig     = ".dockercfg"
)

func parsePullSecret(data map[string][]byte) (pullSecret, error) {
	entries := map[string]registryAuth{}
	var err error
	switch {
	case data[dockerConfigJSON] != nil:
		var file struct {
			Auths map[string]registryAuth `json:"auths"`
		}
		err = json.Unmarshal(data[dockerConfigJSON], &file)
		entries = file.Auths
	case data[dockerConfig] != nil:
		err = json.Unmarshal(data[dockerConfig], &entries)
	default:
		return nil, fmt.Errorf("it has neither %s nor %s", dockerConfigJSON, dockerConfig)
	}
	if err != nil {
		return nil, errors.New("it is not the JSON of a docker configuration") // the original error might quote its content
	}
	var out pullSecret
	for place, e := range entries {
		l, err := newLogin(place, e)
		if err != nil {
			return nil, fmt.Errorf("the login for %s: %w", place, err)
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b login) int {
		if n := len(b.host) + len(b.path) - len(a.host) - len(a.path); n != 0 {
			return n
		}
		return strings.Compare(a.host+a.path, b.host+b.path)
	})
	return out, nil
}

func newLogin(place string, e registryAuth) (login, error) {
	place = strings.TrimPrefix(strings.TrimPrefix(place, "https://"), "http://")
	host, below, _ := strings.Cut(place, "/")
	below = strings.Trim(below, "/")
	if below == "v1" || below == "v2" { // docker adds this path to its own registry
		below = ""
	}
	if host == "docker.io" || host == "registry-1.docker.io" {
		host = "index.docker.io"
	}
	l := login{host: host, path: below, config: authn.AuthConfig{
		Username: e.Username, Password: e.Password, IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken,
	}}
	if e.Auth != "" { // as for the kubelet, it takes precedence, and may lack the padding
		text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(e.Auth), "="))
		if err != nil {
			return l, errors.New("auth is not base64")
		}
		l.config.Username, l.config.Password, _ = strings.Cut(strings.TrimRight(string(text), "\x00"), ":")
	}
	return l, nil
}

// Resolve implements authn.Keychain: it returns the login with the longest path that contains the image.
func (s pullSecret) Resolve(resource authn.Resource) (authn.Authenticator, error) {
	repository := strings.TrimPrefix(resource.String(), resource.RegistryStr()+"/")
	for _, l := range s {
		if matchesHost(l.host, resource.RegistryStr()) && (l.path == "" || repository == l.path || strings.HasPrefix(repository, l.path+"/")) {
			return authn.FromConfig(l.config), nil
		}
	}
	return authn.Anonymous, nil
}

// matchesHost compares part by part, so that a wildcard matches only one part of a name. Ports must be equal.
func matchesHost(pattern, host string) bool {
	if pattern == host {
		return true
	}
	p, h := strings.Split(pattern, "."), strings.Split(host, ".")
	if len(p) != len(h) {
		return false
	}
	for i := range p {
		if ok, err := path.Match(p[i], h[i]); err != nil || !ok {
			return false
		}
	}
	return true
}
