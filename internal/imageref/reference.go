package imageref

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"ephor.invalid/ephor/internal/value"
)

// DefaultRegistry is the registry of references without one, unless Defaults say otherwise.
const DefaultRegistry = "docker.io"

// latest is the tag of references with neither tag nor digest.
const latest = "latest"

const (
	maxName      = 255
	maxReference = 4096
	maxTag       = 128
	// minHex and maxHex bound the digits of a digest; those of SHA-512 have 128. Patterns are compared with the whole reference.
	minHex, maxHex = 32, 128
	maxAlgorithm   = 64
)

// The reasons why a reference is rejected.
var (
	ErrFormat    = errors.New("invalid reference format")
	ErrUppercase = errors.New("repository name must be lowercase")
	ErrLongName  = fmt.Errorf("repository name must not be more than %d characters", maxName)
)

// Reference is one image reference.
type Reference struct {
	Registry string // the default one if the text has none
	Path     string // without registry: team/app
	Name     string // the last part of Path: app
	Tag      string // latest if the text has neither tag nor digest; empty if it has only a digest
	Digest   string // with its algorithm: sha256:…
}

// Defaults define the registry of references without one. The zero Defaults are those of Kyverno: docker.io, written into the
// reference.
type Defaults struct {
	// Registry is the default registry, which may be followed by a path; empty for docker.io.
	Registry string
	// Bare: a reference without a registry stays without one. The default is only used to parse it.
	Bare bool
}

// Parse parses an image reference with the zero Defaults.
func Parse(image string) (Reference, error) { return Defaults{}.Parse(image) }

// Parse parses an image reference. The error wraps ErrFormat, ErrUppercase or ErrLongName, with Kyverno's text.
func (d Defaults) Parse(image string) (Reference, error) {
	full, bare := image, false
	if !hasRegistry(image) {
		// Without a registry, the grammar would take the first part of the path for one.
		full, bare = cmp.Or(d.Registry, DefaultRegistry)+"/"+image, d.Bare
	}
	refuse := func(full string, why error) error {
		return fmt.Errorf("bad image: %s, defaultRegistry: %s, enableDefaultRegistryMutation: %t: %w", full, cmp.Or(d.Registry, DefaultRegistry), !d.Bare, why)
	}
	if len(full) > maxReference {
		return Reference{}, refuse(value.Clip(full, maxReference), ErrFormat)
	}
	r, ok := parse(full)
	if !ok {
		if _, ok = parse(strings.ToLower(full)); ok {
			return Reference{}, refuse(full, ErrUppercase)
		}
		return Reference{}, refuse(full, ErrFormat)
	}
	if len(r.Registry)+1+len(r.Path) > maxName {
		return Reference{}, refuse(full, ErrLongName)
	}
	if bare {
		r.Registry, r.Path = "", strings.TrimPrefix(r.Registry+"/"+r.Path, cmp.Or(d.Registry, DefaultRegistry)+"/")
	}
	r.Name = r.Path[strings.LastIndexByte(r.Path, '/')+1:]
	if r.Tag == "" && r.Digest == "" {
		r.Tag = latest
	}
	return r, nil
}

// hasRegistry reports whether the text of a reference begins with a registry.
func hasRegistry(image string) bool {
	domain, _, ok := strings.Cut(image, "/")
	return ok && IsRegistry(domain)
}

// IsRegistry reports whether the first part of a reference is a registry, by Docker's rule.
func IsRegistry(s string) bool {
	return strings.ContainsAny(s, ".:") || s == "localhost" || strings.ToLower(s) != s
}

// Repository returns the reference without tag and digest.
func (r Reference) Repository() string {
	if r.Registry == "" {
		return r.Path
	}
	return r.Registry + "/" + r.Path
}

// String returns the reference with all known parts: registry, tag and digest.
func (r Reference) String() string {
	s := r.Repository()
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	if r.Digest != "" {
		s += "@" + r.Digest
	}
	return s
}

// Pinned returns the reference with the digest if there is one, otherwise with the tag.
func (r Reference) Pinned() string {
	if r.Digest != "" {
		return r.Repository() + "@" + r.Digest
	}
	return r.WithTag()
}

// WithTag returns the reference with the tag; without a tag, the repository.
func (r Reference) WithTag() string {
	if r.Tag == "" {
		return r.Repository()
	}
	return r.Repository() + ":" + r.Tag
}
