package jmespath

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

var reference = regexp.MustCompile(`^(` + domainText + `/` + pathPart + `(?:/` + pathPart + `)*)(?::([\w][\w.-]{0,127}))?(?:@([A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?$`)

const (
	defaultRegistry = "docker.io"
	maxImageName    = 255
	maxImage        = 4096
)

var (
	errReference = errors.New("invalid reference format")
	errUppercase = errors.New("repository name must be lowercase")
	errLongName  = fmt.Errorf("repository name must not be more than %d characters", maxImageName)
)

// normalizeImage adds the default registry to an image reference without one and the tag latest to one without tag and
// digest. Unlike Docker it does not add library/.
func normalizeImage(image string) (string, error) {
	full := image
	if domain, _, ok := strings.Cut(image, "/"); !ok || !isDomain(domain) {
		full = defaultRegistry + "/" + image
	}
	fail := func(err error) (string, error) {
		if len(full) > maxImage {
			full = full[:maxImage] + "…"
		}
		return "", fmt.Errorf("bad image: %s, defaultRegistry: %s, enableDefaultRegistryMutation: true: %w", full, defaultRegistry, err)
	}
	if len(full) > maxImage {
		return fail(errReference)
	}
	parts := reference.FindStringSubmatch(full)
	switch {
	case parts == nil && reference.MatchString(strings.ToLower(full)):
		return fail(errUppercase)
	case parts == nil:
		return fail(errReference)
	case len(parts[1]) > maxImageName:
		return fail(errLongName)
	case parts[2] == "" && parts[3] == "":
		return full + ":latest", nil
	}
	return full, nil
}

// isDomain tells a registry from the first part of a path, by the rule of Docker.
func isDomain(s string) bool {
	return strings.ContainsAny(s, ".:") || s == "localhost" || strings.ToLower(s) != s
}
