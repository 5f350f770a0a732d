package imageref_test

import (
	"slices"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/imageref"
)

// All spellings of an image have one canonical form.
func TestT19Canonical(t *testing.T) {
	for want, spellings := range map[string][]string{
		"docker.io/library/nginx:latest": {"nginx", "nginx:latest", "library/nginx", "docker.io/nginx", "DOCKER.IO/nginx", "docker.io:443/library/nginx", "index.docker.io/nginx",
			"registry-1.docker.io/library/nginx", "registry.hub.docker.com/nginx", "Index.Docker.io:00443/nginx"},
		"docker.io/acme/app:1":              {"acme/app:1", "docker.io/acme/app:1", "index.docker.io/acme/app:1"},
		"ghcr.io/team/app@" + digest:        {"ghcr.io/team/app@" + digest, "GHCR.io/team/app@" + digest, "ghcr.io:443/team/app@" + digest},
		"ghcr.io:80/nginx:latest":           {"ghcr.io:80/nginx", "ghcr.io:080/nginx"},
		"ghcr.io:0/nginx:latest":            {"ghcr.io:0/nginx", "ghcr.io:000/nginx"},
		"[::1]:5000/nginx:latest":           {"[::1]:5000/nginx", "[0:0:0:0:0:0:0:1]:5000/nginx"},
		"[2001:db8::a]/nginx:latest":        {"[2001:DB8::A]/nginx", "[2001:db8:0::a]:443/nginx"},
		"10.0.0.1/nginx:latest":             {"10.0.0.1/nginx", "[::ffff:a00:1]:443/nginx"},
		"docker.io/library/team/app:latest": {"library/team/app"},
	} {
		for _, s := range spellings {
			r, err := imageref.Parse(s)
			if err != nil {
				t.Fatal(err)
			}
			if got := (imageref.Defaults{}).Canonical(r).String(); got != want {
				t.Errorf("%s: %s, want %s", s, got, want)
			}
		}
	}
}

// Patterns lists the forms of a pattern, in two languages.
func TestPatterns(t *testing.T) {
	for _, c := range []struct{ pattern, wildcards, want string }{
		{"ghcr.io/team/*", "*?", "ghcr.io/team/*"},
		{"GHCR.io:443/app:*", "*?", "GHCR.io:443/app:* ghcr.io/app:* GHCR.io:443/app@* ghcr.io/app@*"},
		{"index.docker.io/nginx:1", "*?", "index.docker.io/nginx:1 docker.io/nginx:1"},
		{"*.IO:443/nginx", "*?", "*.IO:443/nginx *.io/nginx"},
		{"acme/app:?*", "*?", "acme/app:?* acme/app@?*"},
		{"Nginx*", "*?", "Nginx*"},
		{"nginx:?", "*?", "nginx:?"},
		{"{GHCR,quay}.io/{a:*,b:**}", "*?[{\\", "{GHCR,quay}.io/{a:*,b:**} {ghcr,quay}.io/{a:*,b:**} {GHCR,quay}.io/{a@*,b@**} {ghcr,quay}.io/{a@*,b@**}"},
		{"", "*?", ""},
	} {
		if got := strings.Join(imageref.Patterns(c.pattern, c.wildcards), " "); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.pattern, got, c.want)
		}
	}
}

// FuzzCanonical tests that the canonical form is idempotent, equal for all spellings, and among the spellings.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"nginx", "GHCR.IO:0443/team/app:1@" + digest, "[::FFFF:1.2.3.4]:443/x", "[::1]:5000/x", "index.docker.io/library/x", "docker.io/a/b"} {
		f.Add(s, "", false)
		f.Add(s, "Index.docker.io", true)
		f.Add(s, "mirror.example.com/hub", true)
	}
	f.Fuzz(func(t *testing.T, image, registry string, bare bool) {
		if registry != "" && !strings.ContainsAny(registry, ".:") {
			t.Skip("not a registry")
		}
		d := imageref.Defaults{Registry: registry, Bare: bare}
		r, err := d.Parse(image)
		if err != nil {
			return
		}
		c := d.Canonical(r)
		if again := d.Canonical(c); again != c {
			t.Errorf("%s: %+v, and then %+v", image, c, again)
		}
		if c.Registry != strings.ToLower(c.Registry) || strings.HasSuffix(c.Registry, ":443") {
			t.Errorf("%s: %+v", image, c)
		}
		all := d.Spellings(r)
		for _, want := range []string{r.String(), c.String()} {
			if !slices.Contains(all, want) {
				t.Errorf("%s: %q has no %s", image, all, want)
			}
		}
		for _, text := range all {
			if other, err := d.Parse(text); err == nil {
				if got := d.Canonical(other); got.Repository() != c.Repository() {
					t.Errorf("%s: the spelling %s is %s", image, text, got.Repository())
				}
			}
		}
	})
}
