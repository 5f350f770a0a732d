package registry

import (
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"context"
	"errors"

	"github.com/google/go-containerregistry/pkg/name"
	server "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/world"
)

// serve starts a registry on loopback and returns its address. before receives every request and may answer it.
func serve(t *testing.T, before func(w http.ResponseWriter, r *http.Request) bool) string {
	t.Helper()
	registry := server.New(server.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before == nil || !before(w, r) {
			registry.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// image returns an image that runs as a user.
func image(t *testing.T, user, architecture string) v1.Image {
	t.Helper()
	base, err := random.Image(64, 1)
	if err != nil {
		t.Fatal(err)
	}
	config, err := base.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config.User = "linux", architecture, user
	out, err := mutate.ConfigFile(base, config)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func push(t *testing.T, ref string, i v1.Image) {
	t.Helper()
	r, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(r, i); err != nil {
		t.Fatal(err)
	}
}

func registries(t *testing.T, o Options) *Client {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func at(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

// The registry data of an image, and of an index of images for several platforms.
func TestImage(t *testing.T) {
	host := serve(t, nil)
	one := image(t, "1000", "amd64")
	push(t, host+"/team/app:1.0", one)
	digest, _ := one.Digest()
	r := registries(t, Options{Providers: []string{"default"}})
	for _, ref := range []string{host + "/team/app:1.0", host + "/team/app@" + digest.String()} {
		data, err := r.Image(t.Context(), world.ImageRequest{Reference: ref})
		if err != nil {
			t.Fatal(err)
		}
		identifier := "1.0"
		if strings.Contains(ref, "@") {
			identifier = digest.String()
		}
		for field, want := range map[string]string{
			"image": ref, "resolvedImage": host + "/team/app@" + digest.String(), "registry": host, "repository": "team/app", "identifier": identifier,
		} {
			if data[field] != want {
				t.Errorf("%s: %s is %v, want %s", ref, field, data[field], want)
			}
		}
		if got := at(data, "configData", "config", "User"); got != "1000" {
			t.Errorf("user %v", got)
		}
		if got := at(data, "manifest", "schemaVersion"); got != int64(2) || data["manifestList"] != nil {
			t.Errorf("manifest version %v, list %v", got, data["manifestList"])
		}
	}

	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: image(t, "arm", "arm64"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}},
		mutate.IndexAddendum{Add: image(t, "amd", "amd64"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}})
	ref, _ := name.ParseReference(host + "/team/multi:latest")
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	data, err := r.Image(t.Context(), world.ImageRequest{Reference: host + "/team/multi"})
	if err != nil {
		t.Fatal(err)
	}
	digest, _ = index.Digest()
	list, _ := at(data, "manifestList", "manifests").([]any)
	if at(data, "configData", "config", "User") != "amd" || len(list) != 2 || data["resolvedImage"] != host+"/team/multi@"+digest.String() {
		t.Errorf("of an index: %v", data)
	}
	if _, err := r.Image(t.Context(), world.ImageRequest{Reference: host + "/team/nothing:1"}); err == nil || !strings.Contains(err.Error(), "NAME_UNKNOWN") {
		t.Errorf("of an image that is not there: %v", err)
	}
	if _, err := r.Image(t.Context(), world.ImageRequest{Reference: "Not An Image"}); err == nil {
		t.Error("a bad reference is accepted")
	}
}

// The digest of a tag is found with one request that reads no content, even for artifacts that are not runnable images; a registry without
// HEAD gets two requests.
func TestDigest(t *testing.T) {
	var asked []string
	headless := false
	host := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/manifests/") {
			asked = append(asked, r.Method)
		}
		if headless && r.Method == http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return true
		}
		return false
	})
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: image(t, "arm", "arm64"), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}})
	ref, _ := name.ParseReference(host + "/team/arm:1")
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	want, _ := index.Digest()
	client := registries(t, Options{})
	for requests, without := range []bool{1: false, 2: true} {
		if requests == 0 {
			continue
		}
		asked, headless = nil, without
		got, err := client.Digest(t.Context(), world.ImageRequest{Reference: host + "/team/arm:1"})
		if err != nil || got != want.String() || len(asked) != requests {
			t.Errorf("%s, %v after %v, want %s", got, err, asked, want)
		}
	}
	_, err := client.Digest(t.Context(), world.ImageRequest{Reference: host + "/team/nothing:1"})
	if none := (*world.NoImageError)(nil); !errors.As(err, &none) {
		t.Errorf("a tag that is not there: %v", err)
	}
}

// Credentials are taken from pull secrets, and go to no other registry.
func TestPullSecrets(t *testing.T) {
	login := "Basic " + base64.StdEncoding.EncodeToString([]byte("jane:secret"))
	var open atomic.Bool
	open.Store(true)
	guard := func(w http.ResponseWriter, r *http.Request) bool {
		if open.Load() || r.Header.Get("Authorization") == login {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	host := serve(t, guard)
	push(t, host+"/team/app:1", image(t, "1", "amd64"))
	var leaked atomic.Bool
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) bool {
		leaked.Store(leaked.Load() || r.Header.Get("Authorization") != "")
		return false
	})
	push(t, other+"/team/app:1", image(t, "1", "amd64"))
	open.Store(false)

	auth := base64.StdEncoding.EncodeToString([]byte("jane:secret"))
	secrets := map[string]map[string][]byte{
		"ephor/pull":  {dockerConfigJSON: fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, host, auth)},
		"team/legacy": {dockerConfig: fmt.Appendf(nil, `{"https://%s/team":{"username":"jane","password":"secret"}}`, host)},
		"team/below":  {dockerConfigJSON: fmt.Appendf(nil, `{"auths":{"%s/other":{"auth":%q}}}`, host, auth)},
		"team/broken": {dockerConfigJSON: []byte(`{"auths":{"secret"`)},
		"team/bare":   {dockerConfigJSON: fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, host, strings.TrimRight(auth, "="))},
		"team/twice":  {dockerConfigJSON: fmt.Appendf(nil, `{"auths":{%q:{"username":"jane","auth":%q}}}`, host, auth)},
		"team/empty":  {},
	}
	read := func(_ context.Context, namespace, name string) (map[string][]byte, error) {
		if s, ok := secrets[namespace+"/"+name]; ok {
			return s, nil
		}
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	for _, c := range []struct {
		name    string
		options Options
		request world.ImageRequest
		want    string // a part of the error; empty for none
	}{
		{"nobody", Options{Secret: read}, world.ImageRequest{}, "401"},
		{"a secret of the policy", Options{Secret: read, Namespace: "ephor"}, world.ImageRequest{Secrets: []string{"pull"}}, ""},
		{"a secret for everything", Options{Secret: read, Namespace: "ephor", PullSecrets: []string{"/pull"}}, world.ImageRequest{}, ""},
		{"another namespace's, in the old form", Options{Secret: read}, world.ImageRequest{Secrets: []string{"team/legacy"}}, ""},
		{"base64 without padding", Options{Secret: read}, world.ImageRequest{Secrets: []string{"team/bare"}}, ""},
		{"a user name beside the whole login", Options{Secret: read}, world.ImageRequest{Secrets: []string{"team/twice"}}, ""},
		{"for another place", Options{Secret: read}, world.ImageRequest{Secrets: []string{"team/below"}}, "401"},
		{"one that is missing, and one that is not", Options{Secret: read}, world.ImageRequest{Secrets: []string{"team/gone", "ephor/pull"}}, ""},
		{"broken", Options{Secret: read}, world.ImageRequest{Secrets: []string{"team/broken"}}, "pull secret team/broken: it is not the JSON of a docker configuration"},
		{"no pull secret", Options{Secret: read}, world.ImageRequest{Secrets: []string{"team/empty"}}, "it has neither .dockerconfigjson nor .dockercfg"},
		{"nobody can read secrets", Options{}, world.ImageRequest{Secrets: []string{"team/legacy"}}, "not available here"},
		{"unknown provider", Options{}, world.ImageRequest{Providers: []string{"nobody"}}, `unknown provider of registry credentials "nobody"`},
	} {
		r := registries(t, c.options)
		c.request.Reference = host + "/team/app:1"
		_, err := r.Image(t.Context(), c.request)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), "secret\"") || strings.Contains(err.Error(), auth)) {
			t.Errorf("%s: the error tells the secret: %v", c.name, err)
		}
	}
	if _, err := registries(t, Options{Secret: read, Namespace: "ephor"}).Image(t.Context(), world.ImageRequest{Reference: other + "/team/app:1", Secrets: []string{"pull"}}); err != nil || leaked.Load() {
		t.Errorf("another registry: %v, credentials sent: %v", err, leaked.Load())
	}
}

// S23: the content from a registry is bounded in size, time and number of requests.
func TestS23Limits(t *testing.T) {
	endless := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/manifests/") {
			return false
		}
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				break
			}
		}
		return true
	})
	announced := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/manifests/") {
			return false
		}
		w.Header().Set("Content-Length", "10000000000")
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		return true
	})
	silent := serve(t, func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	})
	circle := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/manifests/") {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
			return true
		}
		return false
	})
	deep := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/manifests/") {
			return false
		}
		w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
		fmt.Fprint(w, `{"schemaVersion":2,"x":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+`}`)
		return true
	})
	for _, c := range []struct {
		name, host string
		timeout    time.Duration
		want       string
	}{
		{"an endless manifest", endless, time.Minute, "answers with more than 1048576 bytes"},
		{"10 GB, as announced", announced, time.Minute, "answers with more than 1048576 bytes"},
		{"no answer", silent, 500 * time.Millisecond, ""}, // it ends only because the client gives up
		{"redirects in a circle", circle, time.Minute, "asks for more than 24 requests"},
		{"a nested index", deep, time.Minute, "cannot be read"},
	} {
		r := registries(t, Options{MaxBytes: 1 << 20, Timeout: c.timeout})
		_, err := r.Image(t.Context(), world.ImageRequest{Reference: c.host + "/a/b:1"})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Forbidden addresses are rejected when they are dialled, including those of a login server.
func TestDial(t *testing.T) {
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }))
	t.Cleanup(inside.Close)
	forbidden := strings.TrimPrefix(inside.URL, "http://")
	host := serve(t, func(w http.ResponseWriter, _ *http.Request) bool {
		// Use a name: a private address that is not the registry's own is rejected before it is dialled.
		realm := strings.Replace(inside.URL, "127.0.0.1", "localhost", 1)
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+realm+`/token",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	refusal := errors.New("blocked")
	r := registries(t, Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == forbidden || address == strings.Replace(forbidden, "127.0.0.1", "localhost", 1) {
			return nil, refusal
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}})
	for _, ref := range []string{forbidden + "/a/b:1", host + "/a/b:1"} {
		if _, err := r.Image(t.Context(), world.ImageRequest{Reference: ref}); !errors.Is(err, refusal) {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

// A registry must not name a login server by a private or link-local address, other than its own host and port, nor redirect to such an
// address, other than its own host.
func TestPrivateAddresses(t *testing.T) {
	asked := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }))
	t.Cleanup(asked.Close)
	login := serve(t, func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+asked.URL+`/token",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	redirect := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/manifests/") {
			http.Redirect(w, r, "http://169.254.169.254"+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		}
		return false
	})
	for _, host := range []string{login, redirect} {
		_, err := registries(t, Options{}).Image(t.Context(), world.ImageRequest{Reference: host + "/a/b:1"})
		if err == nil || !strings.Contains(err.Error(), "private") {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		pattern, host string
		want          bool
	}{
		{"ghcr.io", "ghcr.io", true},
		{"*.example.com", "a.example.com", true},
		{"*.example.com", "a.b.example.com", false},
		{"*.example.com", "example.com", false},
		{"*", "ghcr.io", false},
		{"a.example.com", "a.example.com:5000", false},
		{"[", "[", true},
		{"[.io", "x.io", false},
	} {
		if got := matchesHost(c.pattern, c.host); got != c.want {
			t.Errorf("%s and %s: %v", c.pattern, c.host, got)
		}
	}
	for text, want := range map[string]string{"a": "ns/a", "/a": "ns/a", "b/a": "b/a", " b/a ": "b/a", "": "", "/": "", "a/b/c": "", "b/": ""} {
		ns, name, err := splitSecret(text, "ns")
		if got := ns + "/" + name; err == nil && got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

func FuzzPullSecret(f *testing.F) {
	f.Add([]byte(`{"auths":{"https://index.docker.io/v1/":{"auth":"YTpi"},"*.example.com/a":{"username":"a","password":"b"}}}`), "index.docker.io/library/nginx")
	f.Fuzz(func(t *testing.T, text []byte, repository string) {
		s, err := parsePullSecret(map[string][]byte{dockerConfigJSON: text})
		repo, errRepo := name.NewRepository(repository)
		if err != nil || errRepo != nil {
			return
		}
		if _, err := s.Resolve(repo); err != nil {
			t.Error(err)
		}
	})
}
