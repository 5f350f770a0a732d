package rule

import (
	"strings"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/imageref"
	"ephor.invalid/ephor/internal/wildcard"
)

// references are patterns that select images, and patterns that exclude some of them.
type references struct{ selected, skipped []wildcard.Pattern }

// newReferences compiles the patterns.
func newReferences(selected, skipped []string) references {
	var out references
	for _, p := range selected {
		for _, form := range imageref.Patterns(strings.TrimSpace(p), "*?") {
			out.selected = append(out.selected, wildcard.Compile(form))
		}
	}
	for _, p := range skipped {
		out.skipped = append(out.skipped, wildcard.Compile(strings.TrimSpace(p)))
	}
	return out
}

// selects reports whether the patterns select an image, and whether they exclude it again.
func (r *references) selects(m *budget.Meter, image *imageref.Image, spellings []string) (selected, skipped bool, err error) {
	if selected, err = r.about(m, spellings); selected && err == nil {
		skipped, err = r.skips(m, image)
	}
	return selected, skipped, err
}

// about reports whether the patterns select an image, by its spellings. Every way to write the image counts: otherwise GHCR.IO/app, or
// app:v1@sha256:…, would evade the patterns ghcr.io/app and app:v1. Each comparison is charged; an error is that of the meter.
func (r *references) about(m *budget.Meter, spellings []string) (bool, error) {
	return matches(m, r.selected, spellings)
}

// skips reports whether a selected image is excluded. Only the image as written counts: no other spelling may exclude more. For an image
// with a digest only the repository and the digest count: otherwise a user could write an excluded tag before the digest of another image.
func (r *references) skips(m *budget.Meter, image *imageref.Image) (bool, error) {
	if len(r.skipped) == 0 {
		return false, nil
	}
	return matches(m, r.skipped, []string{image.Pinned()})
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
