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
	var out References
	for _, p := range about {
		for _, form := range imageref.Patterns(strings.TrimSpace(p), "*?") {
			out.about = append(out.about, wildcard.Compile(form))
		}
	}
	for _, p := range skip {
		out.skip = append(out.skip, wildcard.Compile(strings.TrimSpace(p)))
	}
	return out
}

// Price returns the cost of comparing an image that has that many spellings with the patterns, in steps.
func (r *References) Price(spellings int) int { return 1 + spellings*len(r.about) + len(r.skip) }

// About reports whether the patterns select an image, by its spellings. Every way to write the image counts: otherwise GHCR.IO/app, or
// app:v1@sha256:…, would evade the patterns ghcr.io/app and app:v1.
func (r *References) About(spellings []string) bool {
	for i := range r.about {
		for _, text := range spellings {
			if r.about[i].Match(text) {
				return true
			}
		}
	}
	return false
}

// Skips reports whether a selected image is excluded. Only the image as written counts: no other spelling may exclude more. For an image
// with a digest only the repository and the digest count: otherwise a user could write an excluded tag before the digest of another image.
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
