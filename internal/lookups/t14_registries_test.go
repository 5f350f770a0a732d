package lookups

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	server "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"ephor.invalid/ephor/internal/apicall"
	"ephor.invalid/ephor/internal/registry"
	"ephor.invalid/ephor/internal/world"
	"ephor.invalid/ephor/internal/world/live"
)

// T14: --httpAllowlist limits the registries of namespaced policies in the same way as services. Without it they may use any registry
// whose address is not blocked. Cluster-wide policies belong to the administrator.
func TestT14RegistriesOfNamespacedPolicies(t *testing.T) {
	var asked atomic.Int32
	served := server.New(server.Logger(log.New(io.Discard, "", 0)))
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		served.ServeHTTP(w, r)
	}))
	t.Cleanup(inside.Close)
	host := strings.TrimPrefix(inside.URL, "http://")
	image, err := random.Image(64, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, repository := range []string{"/team/app:1", "/team2/app:1"} {
		ref, err := name.ParseReference(host + repository)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, image); err != nil {
			t.Fatal(err)
		}
	}
	cluster, tenant := world.Cluster(), world.InNamespace("tenant")
	const no = "no matching allowlist entry"
	for _, c := range []struct {
		what         string
		reach        world.Reach
		block, allow []string
		image, want  string
	}{
		{"no list", tenant, nil, nil, "/team/app:1", ""},
		{"another host", tenant, nil, []string{"https://registry.example"}, "/team/app:1", no},
		{"another host, for a cluster policy", cluster, nil, []string{"https://registry.example"}, "/team/app:1", ""},
		{"the host", tenant, nil, []string{"https://registry.example", inside.URL}, "/team/app:1", ""},
		{"the host with TLS only, which it does not have", tenant, nil, []string{"https://" + host}, "/team/app:1", "HTTP response to HTTPS client"},
		{"a repository", tenant, nil, []string{inside.URL + "/v2/team"}, "/team/app:1", ""},
		{"another repository of the host", tenant, nil, []string{inside.URL + "/v2/team"}, "/team2/app:1", no},
		{"an address of this machine", tenant, apicall.DefaultBlocklist, nil, "/team/app:1", "blocked"},
		{"an address of this machine, on both lists", tenant, apicall.DefaultBlocklist, []string{inside.URL, "https://" + host}, "/team/app:1", "blocked"},
		{"an address of this machine, for a cluster policy", cluster, apicall.DefaultBlocklist, nil, "/team/app:1", "blocked"},
	} {
		calls := CallFlags{blocklist: c.block, allowlist: c.allow}
		services, err := apicall.NewServices(calls.services())
		if err != nil {
			t.Fatal(err)
		}
		images, err := registry.New((&RegistryFlags{}).options("kyverno", nil, services))
		if err != nil {
			t.Fatal(err)
		}
		asked.Store(0)
		_, err = (&live.Root{Images: images.Lookups()}).For(c.reach).Images.Image(t.Context(), world.ImageRequest{Reference: host + c.image})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
		if n := asked.Load(); (n > 0) != (c.want == "") {
			t.Errorf("%s: the registry was asked %d times", c.what, n)
		}
	}
}
