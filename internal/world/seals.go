package world

import "context"

// Seals prove that the installation wrote a text, wherever it was read. A seal of one domain is invalid in another.
type Seals interface {
	// Seal returns the proof for these parts.
	Seal(ctx context.Context, domain string, parts ...string) (string, error)
	// Sealed reports whether the text is a proof for exactly these parts. The error means that the keys cannot be read.
	Sealed(ctx context.Context, text, domain string, parts ...string) (bool, error)
}
