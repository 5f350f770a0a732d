package imageref

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// official is the first part of the paths of Docker's official images, which references may omit.
const official = "library/"

// hub holds the other names of docker.io from which images can be pulled.
var hub = map[string]bool{"index.docker.io": true, "registry-1.docker.io": true, "registry.hub.docker.com": true}

// Canonical returns the form that all spellings of an image share: its registry in lower case, without the default port and without an
// alias, and library/ before the name of an official image of Docker. It is for comparing, never for showing or writing.
func (d Defaults) Canonical(r Reference) Reference {
	if r.Registry == "" {
		r.Registry, r.Path = cut(cmp.Or(d.Registry, DefaultRegistry) + "/" + r.Path)
	}
	r.Registry = CanonicalRegistry(r.Registry)
	if r.Registry == DefaultRegistry && !strings.Contains(r.Path, "/") {
		r.Path = official + r.Path
	}
	return r
}

// CanonicalRegistry returns the form that all spellings of a registry share.
func CanonicalRegistry(host string) string {
	name, port := strings.ToLower(host), ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, ']') {
		name, port = name[:i], cmp.Or(strings.TrimLeft(name[i+1:], "0"), "0") // a port may be written with zeros
	}
	if inner, ok := strings.CutPrefix(name, "["); ok {
		if a, err := netip.ParseAddr(strings.TrimSuffix(inner, "]")); err == nil && a.Is4In6() {
			name = a.Unmap().String()
		} else if err == nil {
			name = "[" + a.String() + "]"
		}
	}
	switch {
	case port != "" && port != "443":
		return name + ":" + port
	case hub[name]:
		return DefaultRegistry
	}
	return name
}

// Spellings returns the texts of an image that patterns are compared with: the registry as written and canonical, with and without
// library/, without the default registry, and each of these with tag and digest, with one of them, and without the tag latest. A pattern
// compares all of its forms, from Patterns, with all of them.
func (d Defaults) Spellings(r Reference) []string {
	c := d.Canonical(r)
	names := append(make([]string, 0, 5), r.Repository())
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if c != r {
		add(c.Repository())
	}
	short, isOfficial := strings.CutPrefix(c.Path, official)
	if isOfficial = isOfficial && c.Registry == DefaultRegistry && !strings.Contains(short, "/"); isOfficial {
		add(c.Registry + "/" + short)
	}
	host, path := cut(cmp.Or(d.Registry, DefaultRegistry) + "/")
	if bare, ok := strings.CutPrefix(c.Path, path); ok && c.Registry == CanonicalRegistry(host) && !hasRegistry(bare) {
		add(bare)
		if isOfficial && path == "" {
			add(short)
		}
	}
	out := make([]string, 0, 4*len(names))
	for _, name := range names {
		tagged := name + ":" + r.Tag
		switch {
		case r.Tag == "":
			out = append(out, name+"@"+r.Digest)
			continue
		case r.Digest != "":
			out = append(out, tagged+"@"+r.Digest, name+"@"+r.Digest)
		}
		if out = append(out, tagged); r.Tag == latest {
			out = append(out, name)
		}
	}
	return out
}

// anyTag matches `:` and a wildcard for any tag, at the end of a pattern or of an alternative in braces.
var anyTag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`:([*?]*\*[*?]*)([,}]|$)`) })

// Patterns returns the forms of a pattern that selects images for which something is required: as written, with its registry in canonical
// form, and with a digest in place of any tag. A pattern without a registry selects images of the default one. wildcards are the special
// characters of the pattern's language: a registry that has some is only lower-cased, and loses the default port. Patterns that exempt
// images have no other forms, since they must not exempt more than what is written.
func Patterns(pattern, wildcards string) []string {
	out := append(make([]string, 0, 4), pattern)
	add := func(p string) {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	if host, path := cut(pattern); path != "" {
		switch {
		case strings.ContainsAny(host, wildcards):
			add(strings.TrimSuffix(strings.ToLower(host), ":443") + "/" + path)
		case IsRegistry(host):
			add(CanonicalRegistry(host) + "/" + path)
		}
	}
	for _, p := range slices.Clone(out) {
		add(anyTag().ReplaceAllString(p, "@$1$2"))
	}
	return out
}

// cut returns the parts of a text before and after the first slash.
func cut(s string) (host, path string) {
	host, path, _ = strings.Cut(s, "/")
	return host, path
}
