package rule

import (
	"slices"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/wildcard"
)

const imageDigest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func about(t *testing.T, d imageref.Defaults, pattern, image string) bool {
	t.Helper()
	reference, err := d.Parse(image)
	if err != nil {
		t.Fatal(err)
	}
	r := newReferences([]string{pattern}, nil)
	return selects(r, d.Spellings(reference))
}

// No spelling of an image evades a pattern that selects it.
func TestT19OtherSpellings(t *testing.T) {
	mirror, bare := imageref.Defaults{Registry: "mirror.example.com/hub"}, imageref.Defaults{Bare: true}
	for _, c := range []struct {
		in             imageref.Defaults
		pattern, image string
		want           bool
	}{
		{pattern: "ghcr.io/*", image: "GHCR.IO/team/app:1", want: true},
		{pattern: "ghcr.io/*", image: "ghcr.io:443/team/app:1", want: true},
		{pattern: "ghcr.io/*", image: "GHCR.io:0443/team/app:1", want: true},
		{pattern: "GHCR.IO:443/*", image: "ghcr.io/team/app:1", want: true},
		{pattern: "reg.example.com:5000/*", image: "reg.example.com:05000/app", want: true},
		{pattern: "[::1]:5000/*", image: "[0:0::1]:5000/app", want: true},
		{pattern: "10.0.0.1:5000/*", image: "[::ffff:a00:1]:5000/app", want: true},
		{pattern: "ghcr.io/team/app:*", image: "ghcr.io/team/app@" + imageDigest, want: true},
		{pattern: "ghcr.io/team/app:?*", image: "ghcr.io/team/app@" + imageDigest, want: true},
		{pattern: "ghcr.io/team/app", image: "ghcr.io/team/app:latest", want: true},
		{pattern: "docker.io/nginx*", image: "docker.io/library/nginx", want: true},
		{pattern: "docker.io/nginx*", image: "index.docker.io/library/nginx:1", want: true},
		{pattern: "docker.io/library/*", image: "nginx", want: true},
		{pattern: "docker.io/acme/*", image: "registry-1.docker.io/acme/app", want: true},
		{pattern: "index.docker.io/acme/*", image: "acme/app", want: true},
		{pattern: "acme/*", image: "docker.io/acme/app", want: true},
		{pattern: "nginx:*", image: "docker.io/library/nginx@" + imageDigest, want: true},
		{pattern: "*.io/nginx*", image: "docker.io/library/nginx", want: true},
		{pattern: "*.IO:443/team/*", image: "ghcr.io/team/app", want: true},
		{pattern: "*:443/*", image: "ghcr.io:443/team/app", want: true}, // as written
		{pattern: "acme/*", image: "mirror.example.com:443/hub/acme/app", in: mirror, want: true},
		{pattern: "mirror.example.com/*", image: "acme/app", in: mirror, want: true},
		{pattern: "docker.io/acme/*", image: "acme/app", in: bare, want: true},

		{pattern: "ghcr.io/*", image: "ghcr.io:5000/team/app:1"},
		{pattern: "ghcr.io/*", image: "ghcr.io.example.com/team/app:1"},
		{pattern: "ghcr.io/team/app:v1", image: "ghcr.io/team/app@" + imageDigest},
		{pattern: "ghcr.io/team/app", image: "ghcr.io/team/app:v1"},
		{pattern: "docker.io/nginx*", image: "docker.io/acme/nginx"},
		{pattern: "docker.io/acme/*", image: "acme/app", in: mirror},
		{pattern: "acme/*", image: "ghcr.io/acme/app"},
		{pattern: "ghcr.io/kyverno*", image: "ghcr.io/other/kyverno"},
	} {
		if got := about(t, c.in, c.pattern, c.image); got != c.want {
			t.Errorf("%s selects %s: %v", c.pattern, c.image, got)
		}
	}
}

// selectedBefore is the comparison of images with patterns as written. What it selects has to stay selected.
func selectedBefore(pattern string, r imageref.Reference) bool {
	p := wildcard.Compile(strings.TrimSpace(pattern))
	return p.Match(r.String()) || r.Digest != "" && (p.Match(r.WithTag()) || p.Match(r.Pinned()))
}

// FuzzReferences tests that canonical comparison selects at least what the patterns as written select, that it skips exactly what they
// skip, and that all spellings of an image are selected alike unless the pattern's registry has a wildcard.
func FuzzReferences(f *testing.F) {
	for _, pattern := range []string{"ghcr.io/*", "docker.io/nginx*", "*.IO/nginx:*", "acme/*", "ghcr.io/kyverno/test-verify-image:*", "docker.io/library/?ginx", "INDEX.docker.io:443/a*", "*"} {
		for _, image := range []string{"nginx", "acme/app:1", "GHCR.IO:443/kyverno/test-verify-image@" + imageDigest, "docker.io/library/nginx:latest", "index.docker.io/nginx"} {
			f.Add(pattern, image, "mirror.example.com/hub", false)
		}
	}
	f.Add("a/*", "registry.example.com/hub/a/b:1", "registry.example.com/hub", true)
	f.Fuzz(func(t *testing.T, pattern, image, registry string, bare bool) {
		if registry != "" && !strings.ContainsAny(registry, ".:") {
			t.Skip("not a registry")
		}
		d := imageref.Defaults{Registry: registry, Bare: bare}
		r, err := d.Parse(image)
		if err != nil || len(pattern) > 200 {
			t.Skip()
		}
		both := newReferences([]string{pattern}, []string{pattern})
		selected := selects(both, d.Spellings(r))
		if selectedBefore(pattern, r) && !selected {
			t.Errorf("%q no longer selects %q", pattern, image)
		}
		if before := wildcard.Match(strings.TrimSpace(pattern), r.Pinned()); skips(both, r) != before {
			t.Errorf("%q skips %q: %v before", pattern, image, before)
		}
		if host, _, ok := strings.Cut(pattern, "/"); !ok || wildcard.Has(host) {
			return
		}
		for _, spelling := range spellings(d.Canonical(r)) {
			if other, err := d.Parse(spelling); err == nil && selects(both, d.Spellings(other)) != selected {
				t.Errorf("%q selects %q: %v, but not the same image %q", pattern, image, selected, spelling)
			}
		}
	})
}

// spellings returns texts that mean the same image.
func spellings(c imageref.Reference) []string {
	names := []string{c.Repository(), strings.ToUpper(c.Registry) + "/" + c.Path}
	if !strings.Contains(c.Registry, ":") || strings.HasSuffix(c.Registry, "]") {
		names = append(names, c.Registry+":443/"+c.Path)
	}
	if short, ok := strings.CutPrefix(c.Path, "library/"); ok && c.Registry == imageref.DefaultRegistry && !strings.Contains(short, "/") {
		names = append(names, c.Registry+"/"+short, "index.docker.io/"+short)
	}
	if c.Registry == imageref.DefaultRegistry {
		names = append(names, "index.docker.io/"+c.Path, "Registry-1.docker.io:443/"+c.Path)
	}
	for i := range names {
		c := c
		c.Registry, c.Path = "", names[i]
		names[i] = c.String()
	}
	return slices.Compact(names)
}

func BenchmarkReferences(b *testing.B) {
	r := newReferences([]string{"ghcr.io/team/*", "registry.example.com/*:*"}, nil)
	image, err := imageref.Parse("quay.io/team/app:v1@" + imageDigest)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		selects(r, imageref.Defaults{}.Spellings(image))
	}
}

// selects and skips report what references report without a budget.
func selects(r references, spellings []string) bool {
	ok, _ := r.about(nil, spellings)
	return ok
}

func skips(r references, image imageref.Reference) bool {
	ok, _ := r.skips(nil, &imageref.Image{Reference: image})
	return ok
}

// TestT16references: each comparison of an image with a pattern is charged by their lengths.
func TestT16References(t *testing.T) {
	image, err := imageref.Parse("ghcr.io/" + strings.Repeat("a", 200) + "@sha512:" + strings.Repeat("0", 128))
	if err != nil {
		t.Fatal(err)
	}
	pattern := "*" + strings.Repeat("?", 300) + "b*"
	r := newReferences(slices.Repeat([]string{pattern}, 100), nil)
	m := budget.New(t.Context(), 1<<40, 1<<40)
	spellings := imageref.Defaults{}.Spellings(image)
	if _, err := r.about(m, spellings); err != nil {
		t.Fatal(err)
	}
	if steps, _ := m.Used(); steps < int64(100*len(spellings)*300*300/8) {
		t.Errorf("%d steps for %d comparisons of 300 bytes with 300", steps, 100*len(spellings))
	}
}
