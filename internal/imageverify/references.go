package imageverify

import (
	"strings"

	"github.com/ephor-dev/ephor/internal/imageref"
	"github.com/ephor-dev/ephor/internal/wildcard"
)

// References are patterns that select images, and patterns that exclude some of them.
type References struct{ about, skip []wildcard.Pattern }

// NewReferences compiles the patterns.
func NewReferences(about, skip []string) References {
	return References{about: patterns(about), skip: patterns(skip)}
}

func patterns(in []string) []wildcard.Pattern {
	out := make([]wildcard.Pattern, len(in))
	for i, p := range in {
		out[i] = wildcard.Compile(strings.TrimSpace(p))
	}
	return out
}

// Price returns the cost of comparing one image with the patterns, in steps.
func (r *References) Price() int { return 1 + 4*len(r.about) + len(r.skip) }

// About reports whether the patterns select the image. Every way to write the image counts: a pattern app:v1 also selects app:v1@sha256:…,
// whose tag could otherwise be written to evade it.
func (r *References) About(image *imageref.Image) bool {
	full := image.String()
	for i := range r.about {
		p := &r.about[i]
		if p.Match(full) || image.Digest != "" && (p.Match(image.WithTag()) || p.Match(image.Pinned())) {
			return true
		}
	}
	return false
}

// Skips reports whether a selected image is excluded. For an image with a digest only the repository and the digest count: otherwise a user
// could write an excluded tag before the digest of another image.
func (r *References) Skips(image *imageref.Image) bool {
	if len(r.skip) == 0 {
		return false
	}
	text := image.Pinned()
	for i := range r.skip {
		if r.skip[i].Match(text) {
			return true
		}
	}
	return false
}
