package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/world"
)

// guarded is a registry that demands a login, with the image /team/app:1. It records who requested the manifest.
type guarded struct {
	host string

	mu     sync.Mutex
	users  map[string]string // user: password
	asked  []string
	served bool
}

func newGuarded(t *testing.T, users map[string]string) *guarded {
	g := &guarded{users: users}
	g.host = serve(t, func(w http.ResponseWriter, r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		g.mu.Lock()
		defer g.mu.Unlock()
		if !g.served {
			return false
		}
		if strings.Contains(r.URL.Path, "/manifests/") {
			g.asked = append(g.asked, user)
		}
		if user != "" && g.users[user] == password {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	push(t, g.host+"/team/app:1", image(t, "1", "amd64"))
	g.served = true
	return g
}

// last returns the user of the last request.
func (g *guarded) last() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.asked) == 0 {
		return ""
	}
	return g.asked[len(g.asked)-1]
}

func secretFor(place, user, password string) map[string][]byte {
	return map[string][]byte{dockerConfigJSON: fmt.Appendf(nil, `{"auths":{%q:{"username":%q,"password":%q}}}`, place, user, password)}
}

// Credentials are those of the policy, then of the object, of its ServiceAccount, and finally those for all images.
func TestOrderOfCredentials(t *testing.T) {
	users := map[string]string{}
	for _, u := range []string{"policy", "object", "account", "default", "all"} {
		users[u] = "p-" + u
	}
	g := newGuarded(t, users)
	secrets := map[string]map[string][]byte{"team/broken": {dockerConfigJSON: []byte("{")}}
	for u, p := range users {
		secrets["team/"+u] = secretFor(g.host, u, p)
	}
	secrets["ephor/all"], secrets["other/object"] = secrets["team/all"], secrets["team/object"]
	var read []string
	options := Options{
		Namespace: "ephor", PullSecrets: []string{"all"},
		Secret: func(_ context.Context, namespace, name string) (map[string][]byte, error) {
			read = append(read, namespace+"/"+name)
			if name == "forbidden" {
				return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, name, errors.New("no"))
			}
			if s, ok := secrets[namespace+"/"+name]; ok {
				return s, nil
			}
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
		},
		ServiceAccount: func(_ context.Context, namespace, name string) ([]string, error) {
			switch namespace + "/" + name {
			case "team/runner":
				return []string{"gone", "account"}, nil
			case "team/default":
				return []string{"default"}, nil
			case "team/down":
				return nil, errors.New("the API server does not answer")
			}
			return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, name, errors.New("no"))
		},
	}
	object := func(account string, names ...string) world.ObjectSecrets {
		return world.ObjectSecrets{Namespace: "team", Names: names, ServiceAccount: account}
	}
	for _, c := range []struct {
		name    string
		request world.ImageRequest
		user    string
		fails   string // a part of the error
	}{
		{"for all images", world.ImageRequest{}, "all", ""},
		{"of the policy before all", world.ImageRequest{Secrets: []string{"team/policy"}, Object: object("runner", "object")}, "policy", ""},
		{"of the object", world.ImageRequest{Object: object("runner", "object")}, "object", ""},
		{"of the ServiceAccount", world.ImageRequest{Object: object("runner", "gone")}, "account", ""},
		{"of the default ServiceAccount", world.ImageRequest{Object: object("")}, "default", ""},
		{"the fallback is kept", world.ImageRequest{Secrets: []string{"team/gone"}, Object: object("nobody", "forbidden", "broken", "gone")}, "all", ""},
		{"an object names no other namespace", world.ImageRequest{Object: object("nobody", "other/object", "../other/object")}, "all", ""},
		{"a secret of the policy that may not be read", world.ImageRequest{Secrets: []string{"team/forbidden"}}, "", "failed to fetch secrets: pull secret team/forbidden"},
		{"a secret of the policy that is none", world.ImageRequest{Secrets: []string{"team/broken"}}, "", "failed to fetch secrets: pull secret team/broken: it is not the JSON"},
		{"the API server is down", world.ImageRequest{Object: object("down")}, "", "failed to fetch secrets: service account team/down"},
	} {
		read = nil
		c.request.Reference = g.host + "/team/app:1"
		_, err := registries(t, options).Image(t.Context(), c.request)
		if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) || err == nil && g.last() != c.user {
			t.Errorf("%s: %q, %v", c.name, g.last(), err)
		}
		if seen := slices.Clone(read); len(seen) != len(slices.Compact(slices.Sorted(slices.Values(seen)))) {
			t.Errorf("%s: secrets are read twice: %v", c.name, read)
		}
		if err == nil && c.user == "policy" && len(read) != 1 {
			t.Errorf("%s: more is read than is needed: %v", c.name, read)
		}
	}
	// A denial says which secrets could not be used, and nothing of their content.
	options.PullSecrets = nil
	_, err := registries(t, options).Image(t.Context(), world.ImageRequest{Reference: g.host + "/team/app:1", Object: object("nobody", "forbidden", "broken")})
	for _, part := range []string{"401", "team/forbidden cannot be read (Forbidden)", "team/broken cannot be used", "service account team/nobody"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, without %q", err, part)
		}
	}
}

// T22: a request of a namespaced policy uses the Secrets of the policy and of the object only: neither the pull secrets of the operator, nor a
// provider, which has the identity of this process. ConfinedLogin allows both.
func TestT22LoginOfTheOperator(t *testing.T) {
	g := newGuarded(t, map[string]string{"policy": "p-policy", "object": "p-object", "operator": "p-operator", "process": "p-process"})
	home := t.TempDir()
	t.Setenv("DOCKER_CONFIG", home)
	if err := os.WriteFile(filepath.Join(home, "config.json"), secretFor(g.host, "process", "p-process")[dockerConfigJSON], 0o600); err != nil {
		t.Fatal(err)
	}
	secrets := map[string]map[string][]byte{
		"team/policy": secretFor(g.host, "policy", "p-policy"), "team/object": secretFor(g.host, "object", "p-object"), "ephor/operator": secretFor(g.host, "operator", "p-operator"),
	}
	object := world.ObjectSecrets{Namespace: "team", Names: []string{"object"}}
	for _, c := range []struct {
		name                  string
		secrets, providers    []string // of the operator
		request               world.ImageRequest
		cluster, confined, on string // the user of a request of a cluster-wide policy, of a namespaced one, and of that with ConfinedLogin; empty: denied
	}{
		{"pull secrets of the operator", []string{"operator"}, nil, world.ImageRequest{}, "operator", "", "operator"},
		{"providers of the operator", nil, []string{"default"}, world.ImageRequest{}, "process", "", "process"},
		{"providers of the policy", nil, nil, world.ImageRequest{Providers: []string{"default"}}, "process", "", "process"},
		{"a secret of the policy", []string{"operator"}, []string{"default"}, world.ImageRequest{Secrets: []string{"team/policy"}}, "policy", "policy", "policy"},
		{"a secret of the object", []string{"operator"}, []string{"default"}, world.ImageRequest{Object: object}, "object", "object", "object"},
	} {
		for _, ask := range []struct {
			confined, on bool
			user         string
		}{{false, false, c.cluster}, {true, false, c.confined}, {true, true, c.on}} {
			client := registries(t, Options{
				Namespace: "ephor", PullSecrets: c.secrets, Providers: c.providers, ConfinedLogin: ask.on,
				Secret: func(_ context.Context, namespace, name string) (map[string][]byte, error) {
					if namespace == "ephor" && ask.confined && !ask.on {
						t.Errorf("%s: the Secret %s of the installation is read", c.name, name)
					}
					return secrets[namespace+"/"+name], nil
				},
			})
			r := c.request
			r.Reference, r.Confined = g.host+"/team/app:1", ask.confined
			_, err := client.Image(t.Context(), r)
			switch {
			case ask.user == "" && (err == nil || !strings.Contains(err.Error(), "--namespacedPoliciesUseOperatorLogin")):
				t.Errorf("%s: %+v: the user %q reads the image; %v", c.name, ask, g.last(), err)
			case ask.user != "" && (err != nil || g.last() != ask.user):
				t.Errorf("%s: %+v: the user is %q, %v", c.name, ask, g.last(), err)
			}
		}
	}
}

// bearer is a registry with a login server that counts requests by purpose.
type bearer struct {
	host    string
	mu      sync.Mutex
	count   map[string]int
	expires int
	valid   string // the token that the registry accepts; empty for all
	scopes  []string
}

func newBearer(t *testing.T) *bearer {
	b := &bearer{count: map[string]int{}, expires: 300}
	pushed := false
	b.host = serve(t, func(w http.ResponseWriter, r *http.Request) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		if r.URL.Path == "/token" {
			b.count["token"]++
			user, _, _ := r.BasicAuth()
			b.scopes = append(b.scopes, r.URL.Query().Get("scope"))
			fmt.Fprintf(w, `{"token":"t%d-%s","expires_in":%d}`, b.count["token"], user, b.expires)
			return true
		}
		if !pushed {
			return false
		}
		kind := "manifest"
		if r.URL.Path == "/v2/" {
			kind = "ping"
		}
		b.count[kind]++
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if ok && (b.valid == "" || b.valid == token) {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	push(t, b.host+"/team/app:1", image(t, "1", "amd64"))
	push(t, b.host+"/team/other:1", image(t, "1", "amd64"))
	b.mu.Lock()
	pushed = true
	b.count = map[string]int{}
	b.mu.Unlock()
	return b
}

func (b *bearer) counted() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := fmt.Sprintf("ping %d token %d manifest %d", b.count["ping"], b.count["token"], b.count["manifest"])
	clear(b.count)
	return out
}

// The way to log in, and tokens, are cached until shortly before they expire: a digest then costs one request. Tokens are cached for
// the login and the scope for which they were issued.
func TestTokens(t *testing.T) {
	b := newBearer(t)
	now := time.Now()
	login := func(user string) Options {
		return Options{PullSecrets: []string{"a/b"}, Secret: func(context.Context, string, string) (map[string][]byte, error) {
			return secretFor(b.host, user, "secret"), nil
		}}
	}
	c := registries(t, login("jane"))
	c.tokens = newTokens(func() time.Time { return now })
	ask := func(repository, want string) {
		t.Helper()
		if _, err := c.Digest(t.Context(), world.ImageRequest{Reference: b.host + repository}); err != nil {
			t.Fatal(err)
		}
		if got := b.counted(); got != want {
			t.Errorf("%s: %s, want %s", repository, got, want)
		}
	}
	ask("/team/app:1", "ping 1 token 1 manifest 1")
	ask("/team/app:1", "ping 0 token 0 manifest 1")
	ask("/team/other:1", "ping 0 token 1 manifest 1")
	other := registries(t, login("mary"))
	other.tokens = c.tokens
	if _, err := other.Digest(t.Context(), world.ImageRequest{Reference: b.host + "/team/app:1"}); err != nil || b.counted() != "ping 0 token 1 manifest 1" {
		t.Errorf("another login has the token: %v", err)
	}
	now = now.Add(4*time.Minute - time.Second) // a minute before its expiry
	ask("/team/app:1", "ping 0 token 0 manifest 1")
	now = now.Add(time.Second)
	ask("/team/app:1", "ping 0 token 1 manifest 1")
	lives := func(seconds int) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.expires = seconds
	}
	lives(30) // shorter than the margin
	now = now.Add(10 * time.Minute)
	ask("/team/app:1", "ping 0 token 1 manifest 1")
	ask("/team/app:1", "ping 0 token 1 manifest 1")
	lives(300)
	ask("/team/app:1", "ping 0 token 1 manifest 1")
	// A token that the registry no longer accepts is not used again, and the registry is asked again how to log in.
	b.mu.Lock()
	b.valid = "another"
	b.mu.Unlock()
	if _, err := c.Digest(t.Context(), world.ImageRequest{Reference: b.host + "/team/app:1"}); err == nil {
		t.Error("a token that is not valid is taken")
	}
	b.counted()
	b.mu.Lock()
	b.valid = ""
	b.mu.Unlock()
	ask("/team/app:1", "ping 1 token 1 manifest 1")
	ask("/team/app:1", "ping 0 token 0 manifest 1")
	now = now.Add(challengeLives)
	ask("/team/app:1", "ping 1 token 1 manifest 1")
}

// What registries say about logins takes a limited room, however long it is and however many repositories policies name.
func TestRoomOfLogins(t *testing.T) {
	const long = 60_000
	host := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+"/"+strings.Repeat("t", long)+fmt.Sprint(r.URL.Path)+`"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	c := registries(t, Options{})
	const n = 400
	for i := range n {
		s, err := c.Open(t.Context(), Ask{Image: world.ImageRequest{Reference: fmt.Sprintf("%s/team/app%d:1", host, i)}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Fetch(t.Context(), Fetch{Repository: s.Image.Context(), Path: "manifests/1"}); err == nil {
			t.Fatal("it needs no login")
		}
		s.Close()
	}
	if got := c.tokens.answers.Len() * long; got > maxAnswerBytes {
		t.Errorf("%d bytes of answers", got)
	}
	realms := 0
	for place := range c.tokens.realms {
		realms += len(place)
	}
	if realms > maxAnswerBytes {
		t.Errorf("%d bytes of addresses", realms)
	}
}

// Many simultaneous reviews request one token.
func TestOneToken(t *testing.T) {
	b := newBearer(t)
	c := registries(t, Options{})
	var wait sync.WaitGroup
	for range 30 {
		wait.Go(func() {
			if _, err := c.Digest(t.Context(), world.ImageRequest{Reference: b.host + "/team/app:1"}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if got := b.counted(); got != "ping 1 token 1 manifest 30" {
		t.Error(got)
	}
}

// A redirect of the registry sends neither a password nor a token to another host, and no text contains one.
func TestLoginsStay(t *testing.T) {
	var leaked atomic.Bool
	elsewhere := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
		leaked.Store(leaked.Load() || r.Header.Get("Authorization") != "" || strings.Contains(r.URL.String(), "secret"))
		w.WriteHeader(http.StatusForbidden)
		return true
	})
	for _, kind := range []string{"Basic", "Bearer"} {
		host := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case r.URL.Path == "/token":
				fmt.Fprint(w, `{"token":"secrettoken","expires_in":300}`)
			case r.Header.Get("Authorization") == "":
				w.Header().Set("WWW-Authenticate", kind+` realm="http://`+r.Host+`/token",service="x"`)
				w.WriteHeader(http.StatusUnauthorized)
			default:
				// Use a name: a private address that is not the registry's own is rejected before any request.
				http.Redirect(w, r, "http://"+strings.Replace(elsewhere, "127.0.0.1", "localhost", 1)+r.URL.Path, http.StatusTemporaryRedirect)
			}
			return true
		})
		c := registries(t, Options{PullSecrets: []string{"a/b"}, Secret: func(context.Context, string, string) (map[string][]byte, error) {
			return secretFor(host, "jane", "secretpassword"), nil
		}})
		_, err := c.Image(t.Context(), world.ImageRequest{Reference: host + "/team/app:1"})
		if err == nil || leaked.Load() || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: leaked %v, %v", kind, leaked.Load(), err)
		}
	}
}

// A request to an overloaded registry is repeated after the time that it requests, within the deadline.
func TestRetries(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		after  string
		times  int // number of overloaded answers
		limit  time.Duration
		ok     bool
		asked  int
		min    time.Duration
	}{
		{"429 with Retry-After", 429, "1", 1, time.Minute, true, 2, time.Second},
		{"429 with a date", 429, "date", 1, time.Minute, true, 2, 0},
		{"503 without", 503, "", 2, time.Minute, true, 3, 0},
		{"longer than the deadline", 429, "15", 1, 12 * time.Second, false, 1, 0},
		{"longer than is waited", 429, "3600", 1, 0, false, 1, 0},
		{"always", 500, "", 100, 0, false, 1 + maxRetries, 0},
		{"not found", 404, "", 100, 0, false, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if int(asked.Add(1)) <= c.times {
					if c.after == "date" {
						w.Header().Set("Retry-After", time.Now().Add(time.Second).UTC().Format(http.TimeFormat))
					} else if c.after != "" {
						w.Header().Set("Retry-After", c.after)
					}
					w.WriteHeader(c.status)
				}
			}))
			t.Cleanup(s.Close)
			ctx := t.Context()
			if c.limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.limit)
				defer cancel()
			}
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
			begun := time.Now()
			answer, err := (&patient{next: s.Client().Transport, wait: time.Millisecond}).RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if (answer.StatusCode == 200) != c.ok || int(asked.Load()) != c.asked || time.Since(begun) < c.min {
				t.Errorf("%d after %d requests and %v", answer.StatusCode, asked.Load(), time.Since(begun))
			}
		})
	}
}

// Logins of clouds are cached until shortly before they expire; one goroutine requests them; a failure is cached for a minute.
func TestCloudLogins(t *testing.T) {
	now := time.Now()
	l := newLogins(func() time.Time { return now })
	var asked atomic.Int32
	lives, fails := 10*time.Minute, false
	login := func(context.Context) (cloudLogin, error) {
		asked.Add(1)
		if fails {
			return cloudLogin{}, errors.New("no")
		}
		return cloudLogin{config: authn.AuthConfig{Username: "u"}, expires: now.Add(lives)}, nil
	}
	get := func(want int32, ok bool) {
		t.Helper()
		got, err := l.get(t.Context(), "amazon x", login)
		if (err == nil) != ok || ok && got.config.Username != "u" || asked.Load() != want {
			t.Errorf("%v, %v after %d logins, want %d", got, err, asked.Load(), want)
		}
	}
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if _, err := l.get(t.Context(), "amazon x", login); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	get(1, true)
	now = now.Add(9*time.Minute - time.Second)
	get(1, true)
	now = now.Add(time.Second)
	get(2, true)
	now, fails = now.Add(time.Hour), true
	get(3, false)
	get(3, false)
	now = now.Add(noLoginFor)
	get(4, false)
	now, fails = now.Add(noLoginFor), false
	get(5, true)
}

func TestCloudHosts(t *testing.T) {
	for host, want := range map[string]string{
		"123456789012.dkr.ecr.eu-west-1.amazonaws.com":          "amazon",
		"123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com": "amazon",
		"123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn":      "amazon",
		"123456789012.dkr-ecr.eu-west-1.on.aws":                 "amazon",
		"public.ecr.aws":                                        "amazon",
		"evil.dkr.ecr.eu-west-1.amazonaws.com.example":          "",
		"123456789012.dkr.ecr.eu-west-1.amazonaws.com.evil.com": "",
		"123456789012.dkr.ecr.x/y.amazonaws.com":                "",
		"gcr.io":                                                "google", "eu.gcr.io": "google", "europe-docker.pkg.dev": "google", "evilgcr.io": "", "pkg.dev": "",
		"team.azurecr.io": "azure", "team.azurecr.cn": "azure", "azurecr.io": "", "team.azurecr.io.example": "", "team.azurecr.io:8443": "",
	} {
		got := ""
		for name, serves := range map[string]func(string) bool{"amazon": servedByAmazon, "google": servedByGoogle, "azure": servedByAzure} {
			if serves(host) {
				got += name
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}

// Azure gets two requests: for a token of the identity of the process, and for one of the registry.
func TestAzure(t *testing.T) {
	expires := time.Now().Add(3 * time.Hour).Truncate(time.Second)
	claims := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, expires.Unix()))
	var asked []url.Values
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		asked = append(asked, r.Form)
		switch r.URL.Path {
		case "/tenant/oauth2/v2.0/token":
			fmt.Fprint(w, `{"access_token":"workload"}`)
		case "/metadata":
			if r.Header.Get("Metadata") != "true" {
				w.WriteHeader(http.StatusBadRequest)
			}
			fmt.Fprint(w, `{"access_token":"node"}`)
		case "/exchange":
			fmt.Fprintf(w, `{"refresh_token":"a.%s.c"}`, claims)
		default:
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"error":"secret"}`)
		}
	}))
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("assertion"), 0o600); err != nil {
		t.Fatal(err)
	}
	metadata, exchange := azureMetadata, azureExchange
	t.Cleanup(func() { azureMetadata, azureExchange = metadata, exchange })
	azureMetadata, azureExchange = s.URL+"/metadata", func(string) string { return s.URL + "/exchange" }
	c := registries(t, Options{})
	for _, v := range []string{"AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_SECRET", "AZURE_AUTHORITY_HOST"} {
		t.Setenv(v, "")
	}
	got, err := loginToAzure(t.Context(), c, "team.azurecr.io")
	if err != nil || got.config.IdentityToken != "a."+claims+".c" || !got.expires.Equal(expires) || len(asked) != 2 ||
		asked[0].Get("resource") != "https://containerregistry.azure.net" || asked[1].Get("access_token") != "node" || asked[1].Get("service") != "team.azurecr.io" {
		t.Errorf("of the node: %+v, %v, %v", got, err, asked)
	}
	t.Setenv("AZURE_CLIENT_ID", "client")
	t.Setenv("AZURE_TENANT_ID", "tenant")
	t.Setenv("AZURE_AUTHORITY_HOST", s.URL+"/")
	t.Setenv("AZURE_FEDERATED_TOKEN_FILE", file)
	asked = nil
	if _, err = loginToAzure(t.Context(), c, "team.azurecr.cn"); err != nil || len(asked) != 2 || asked[0].Get("client_assertion") != "assertion" ||
		asked[0].Get("scope") != "https://management.chinacloudapi.cn/.default" || asked[1].Get("access_token") != "workload" || asked[1].Get("tenant") != "tenant" {
		t.Errorf("of the workload: %v, %v", err, asked)
	}
	azureExchange = func(string) string { return s.URL + "/denied" }
	if _, err = loginToAzure(t.Context(), c, "team.azurecr.io"); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "403") {
		t.Errorf("%v", err)
	}
}

// Amazon issues a token for an account and its region, Google one for the credentials that the environment names.
func TestAmazonAndGoogle(t *testing.T) {
	expires := time.Now().Add(12 * time.Hour).Truncate(time.Second)
	var target string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/google" {
			fmt.Fprint(w, `{"access_token":"google","expires_in":3600,"token_type":"Bearer"}`)
			return
		}
		target = r.Header.Get("X-Amz-Target")
		data := fmt.Sprintf(`{"authorizationToken":%q,"expiresAt":%d}`, base64.StdEncoding.EncodeToString([]byte("AWS:password")), expires.Unix())
		if !strings.HasPrefix(target, "SpencerFrontendService") {
			data = "[" + data + "]"
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		fmt.Fprintf(w, `{"authorizationData":%s}`, data)
	}))
	t.Cleanup(s.Close)
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key", "AWS_ENDPOINT_URL": s.URL, "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
	} {
		t.Setenv(name, value)
	}
	c := registries(t, Options{})
	for host, want := range map[string]string{
		"123456789012.dkr.ecr.eu-west-1.amazonaws.com": "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken", "public.ecr.aws": "SpencerFrontendService.GetAuthorizationToken",
	} {
		got, err := loginToAmazon(t.Context(), c, host)
		if err != nil || got.config.Username != "AWS" || got.config.Password != "password" || !got.expires.Equal(expires) || target != want {
			t.Errorf("%s: %+v, %v, %s", host, got, err, target)
		}
	}
	file := filepath.Join(t.TempDir(), "credentials.json")
	text, _ := json.Marshal(map[string]string{"type": "authorized_user", "client_id": "a", "client_secret": "b", "refresh_token": "c", "token_uri": s.URL + "/google"})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	_, err := loginToGoogle(t.Context(), c, "gcr.io")
	if err != nil && !strings.Contains(err.Error(), "oauth2") {
		t.Errorf("google: %v", err)
	}
}

// The image data of an index are those of the platform of the object, otherwise of linux/amd64, otherwise of its first image.
func TestPlatforms(t *testing.T) {
	host := serve(t, nil)
	c := registries(t, Options{})
	arm, windows, attestation := image(t, "arm", "arm64"), image(t, "windows", "amd64"), image(t, "attestation", "unknown")
	add := func(i v1.Image, os, architecture string, annotations map[string]string) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: i, Descriptor: v1.Descriptor{MediaType: types.DockerManifestSchema2, Annotations: annotations, Platform: &v1.Platform{OS: os, Architecture: architecture}}}
	}
	attests := map[string]string{"vnd.docker.reference.type": "attestation-manifest"}
	unknown := add(attestation, "unknown", "unknown", attests)
	for _, x := range []struct {
		name     string
		children []mutate.IndexAddendum
		platform string
		user     string // empty: an error
	}{
		{"amd64", []mutate.IndexAddendum{add(arm, "linux", "arm64", nil), add(image(t, "amd", "amd64"), "linux", "amd64", nil)}, "", "amd"},
		{"asked", []mutate.IndexAddendum{add(arm, "linux", "arm64", nil), add(image(t, "amd", "amd64"), "linux", "amd64", nil)}, "linux/arm64", "arm"},
		{"asked-missing", []mutate.IndexAddendum{add(arm, "linux", "arm64", nil), add(image(t, "amd", "amd64"), "linux", "amd64", nil)}, "linux/s390x", "amd"},
		{"arm", []mutate.IndexAddendum{unknown, add(arm, "linux", "arm64", nil)}, "", "arm"},
		{"windows", []mutate.IndexAddendum{add(windows, "windows", "amd64", nil)}, "", "windows"},
		{"nothing", []mutate.IndexAddendum{unknown}, "", ""},
		{"bad", []mutate.IndexAddendum{add(arm, "linux", "arm64", nil)}, "a/b/c/d/e", "arm"},
	} {
		ref, err := name.ParseReference(host + "/team/" + x.name + ":1")
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.WriteIndex(ref, mutate.AppendManifests(empty.Index, x.children...)); err != nil {
			t.Fatal(err)
		}
		data, err := c.Image(t.Context(), world.ImageRequest{Reference: ref.String(), Platform: x.platform})
		if user, _ := at(data, "configData", "config", "User").(string); (err != nil) != (x.user == "") || user != x.user {
			t.Errorf("%s: %q, %v", x.name, user, err)
		}
	}
}

// T26: a registry with TLS does not make Ephor ask a login server without TLS.
func TestT26LoginServersHaveTLS(t *testing.T) {
	var asked atomic.Bool
	plain := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
		asked.Store(true)
		fmt.Fprint(w, `{"token":"x","expires_in":300}`)
		return true
	})
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+strings.Replace(plain, "127.0.0.1", "localhost", 1)+`/token",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(secure.Close)
	host := strings.Replace(strings.TrimPrefix(secure.URL, "https://"), "127.0.0.1", "localhost", 1)
	c := registries(t, Options{Insecure: true})
	ask := world.ImageRequest{Reference: host + "/team/app:1"}
	s, err := c.Open(t.Context(), Ask{Image: ask})
	if err != nil {
		t.Fatal(err)
	}
	_, byFetch := s.Fetch(t.Context(), Fetch{Repository: s.Image.Context(), Path: "manifests/1"})
	_, byImage := c.Image(t.Context(), ask)
	for _, err := range []error{byFetch, byImage} {
		if err == nil || !strings.Contains(err.Error(), "realm") || asked.Load() {
			t.Errorf("asked %t, %v", asked.Load(), err)
		}
	}
}

// T26: a registry cannot declare content, such as that of another registry, as a login server, whose answers are cached.
func TestT26ContentIsNoLoginServer(t *testing.T) {
	var all tokens
	for realm, want := range map[string]bool{"https://a.example/token": true, "https://a.example/v2/token": true, "https://a.example/v2/x/manifests/1": false, "https://a.example/v2/x/blobs/sha256:1": false} {
		all.learn(&http.Response{Header: http.Header{"Www-Authenticate": {`Bearer realm="` + realm + `"`}}})
		u, err := url.Parse(realm)
		if err != nil {
			t.Fatal(err)
		}
		if got := all.isRealm(u); got != want {
			t.Errorf("%s: %t", realm, got)
		}
	}
}
