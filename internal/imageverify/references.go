package imageverify

import (
	"strings"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/wildcard"
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

// About reports whether the patterns select an image, by its spellings. Every way to write the image counts: otherwise GHCR.IO/app, or
// app:v1@sha256:…, would evade the patterns ghcr.io/app and app:v1. Each comparison is charged; an error is that of the meter.
func (r *References) About(m *budget.Meter, spellings []string) (bool, error) {
	return matches(m, r.about, spellings)
}

// Skips reports whether a selected image is excluded. Only the image as written counts: no other spelling may exclude more. For an image
// with a digest only the repository and the digest count: otherwise a user could write an excluded tag before the digest of another image.
func (r *References) Skips(m *budget.Meter, image *imageref.Image) (bool, error) {
	if len(r.skip) == 0 {
		return false, nil
	}
	return matches(m, r.skip, []string{image.Pinned()})
}

// matches reports whether a pattern matches one of the texts.
func matches(m *budget.Meter, patterns []wildcard.Pattern, texts []string) (bool, error) {
	for i := range patterns {
		for _, text := range texts {
			if err := m.Step(1 + patterns[i].Cost(text)); err != nil {
				return false, err
			}
			if patterns[i].Match(text) {
				return true, nil
			}
		}
	}
	return false, nil
}
