package imageref

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// The grammar of image references, as the distribution project defines it.
const (
	domainPart = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`
	domainText = `(?:` + domainPart + `(?:\.` + domainPart + `)*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?`
	pathPart   = `[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*`
)

var grammar = regexp.MustCompile(`^(` + domainText + `)/(` + pathPart + `(?:/` + pathPart + `)*)(?::([\w][\w.-]{0,127}))?(?:@([A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?$`)

const (
	defaultRegistry = "docker.io"
	maxName         = 255
	maxReference    = 4096
)

// Why a reference is refused.
var (
	ErrFormat    = errors.New("invalid reference format")
	ErrUppercase = errors.New("repository name must be lowercase")
	ErrLongName  = fmt.Errorf("repository name must not be more than %d characters", maxName)
)

// Reference is one image reference.
type Reference struct {
	Registry string // docker.io when the text names none
	Path     string // without registry: team/app
	Name     string // last part of Path: app
	Tag      string // latest when the text has neither tag nor digest; empty when it has only a digest
	Digest   string // with its algorithm: sha256:…
}

// Parse reads an image reference. The error wraps ErrFormat, ErrUppercase or ErrLongName, in the words of the reference.
func Parse(image string) (Reference, error) {
	full := image
	if domain, _, ok := strings.Cut(image, "/"); !ok || !isDomain(domain) {
		full = defaultRegistry + "/" + image
	}
	if len(full) > maxReference {
		return Reference{}, refuse(full[:maxReference]+"…", ErrFormat)
	}
	parts := grammar.FindStringSubmatch(full)
	switch {
	case parts == nil && grammar.MatchString(strings.ToLower(full)):
		return Reference{}, refuse(full, ErrUppercase)
	case parts == nil:
		return Reference{}, refuse(full, ErrFormat)
	case len(parts[1])+1+len(parts[2]) > maxName:
		return Reference{}, refuse(full, ErrLongName)
	}
	r := Reference{Registry: parts[1], Path: parts[2], Tag: parts[3], Digest: parts[4]}
	r.Name = r.Path[strings.LastIndexByte(r.Path, '/')+1:]
	if r.Tag == "" && r.Digest == "" {
		r.Tag = "latest"
	}
	return r, nil
}

func refuse(full string, why error) error {
	return fmt.Errorf("bad image: %s, defaultRegistry: %s, enableDefaultRegistryMutation: true: %w", full, defaultRegistry, why)
}

// isDomain tells a registry from the first part of a path, by the rule of Docker.
func isDomain(s string) bool {
	return strings.ContainsAny(s, ".:") || s == "localhost" || strings.ToLower(s) != s
}

// Repository is the reference without tag and digest.
func (r Reference) Repository() string { return r.Registry + "/" + r.Path }

// String is the reference with everything that is known: registry, tag and digest.
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

// Pinned is the reference by digest when there is one, else by tag.
func (r Reference) Pinned() string {
	if r.Digest != "" {
		return r.Repository() + "@" + r.Digest
	}
	return r.WithTag()
}

// WithTag is the reference by tag; without tag it is the repository.
func (r Reference) WithTag() string {
	if r.Tag == "" {
		return r.Repository()
	}
	return r.Repository() + ":" + r.Tag
}
