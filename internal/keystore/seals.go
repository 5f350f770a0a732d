package keystore

import (
	"context"
	"errors"

	"ephor.invalid/ephor/internal/seal"
)

// Seals creates and checks seals with the keys of a Secret.
type Seals struct{ Keys *Cached }

// Seal returns a proof, made with the current key, that these parts were claimed in this domain.
func (s Seals) Seal(ctx context.Context, domain string, parts ...string) (string, error) {
	ring, err := s.Keys.Ring(ctx)
	if err != nil {
		return "", err
	}
	return ring.Seal(domain, parts...), nil
}

// Sealed reports whether the text is a seal of these parts. If its key is not known, the Secret is read again: another replica may have
// added a key. The error means that the Secret cannot be read.
func (s Seals) Sealed(ctx context.Context, text, domain string, parts ...string) (bool, error) {
	if text == "" {
		return false, nil
	}
	ring, err := s.Keys.Ring(ctx)
	if err != nil {
		return false, err
	}
	err = ring.Check(text, domain, parts...)
	if errors.Is(err, seal.ErrUnknownKey) {
		if ring, err = s.Keys.Fresh(ctx); err != nil {
			return false, err
		}
		err = ring.Check(text, domain, parts...)
	}
	return err == nil, nil
}
