package world

import "context"

// Seals prove that the installation wrote a text, wherever it was read. A seal of one domain is invalid in another.
type Seals interface {
	// Seal returns the proof for these parts.
	Seal(ctx context.Context, domain string, parts ...string) (string, error)
	// Sealed reports whether the text is a proof for exactly these parts. The error means that the keys cannot be read.
	Sealed(ctx context.Context, text, domain string, parts ...string) (bool, error)
}

// SealRequest is a request for a seal: all but the domain may be confidential.
type SealRequest struct {
	Domain string
	Parts  []string // if a seal is checked, its text first
}

// Within implements Request.
func (r SealRequest) Within(Reach) (Request, error) { return r, nil }

// Title implements Request.
func (r SealRequest) Title() string { return r.Domain }

// Key implements Request.
func (r SealRequest) Key() Key { return Key{Asked: Canonical(r.Domain), Hidden: r.Parts} }

// seals are Seals as Lookups.
type seals struct {
	seal  Lookup[SealRequest, string]
	check Lookup[SealRequest, bool]
}

// Seal implements Seals.
func (s seals) Seal(ctx context.Context, domain string, parts ...string) (string, error) {
	return s.seal(ctx, SealRequest{domain, parts})
}

// Sealed implements Seals.
func (s seals) Sealed(ctx context.Context, text, domain string, parts ...string) (bool, error) {
	return s.check(ctx, SealRequest{domain, append([]string{text}, parts...)})
}

func passSeals(d door, next Seals) Seals {
	var s seals
	if next != nil {
		s.seal = func(ctx context.Context, r SealRequest) (string, error) { return next.Seal(ctx, r.Domain, r.Parts...) }
		s.check = func(ctx context.Context, r SealRequest) (bool, error) {
			return next.Sealed(ctx, r.Parts[0], r.Domain, r.Parts[1:]...)
		}
	}
	pass(d, "Seals", "seal", "SEAL ", &s.seal)
	if pass(d, "Seals", "sealed", "SEALED ", &s.check); s.seal == nil {
		return nil
	}
	return s
}
