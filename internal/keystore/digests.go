package keystore

import (
	"context"
	"time"

	"ephor.invalid/ephor/internal/lock"
	"ephor.invalid/ephor/internal/seal"
)

// Digests computes keyed digests of texts that an attacker could guess. It is safe for concurrent use.
type Digests struct {
	keys *Cached

	lock   lock.Lock
	failed time.Time    // when the last attempt to read the keys failed
	summer *seal.Summer // of the key that was used last
}

// NewDigests returns Digests that use the current one of these keys.
func NewDigests(keys *Cached) *Digests { return &Digests{keys: keys} }

// Digest returns 16 bytes that the current key computes from a text in a domain; ok is false while there is no key. After a failed read of
// the Secret, Digest waits some seconds before the next attempt, since each record has several digests.
func (d *Digests) Digest(ctx context.Context, domain, text string) (out [16]byte, ok bool) {
	unlock, err := d.lock.Lock(ctx)
	if err != nil {
		return out, false
	}
	defer unlock()
	now := d.keys.Now()
	if !d.failed.IsZero() && now.Sub(d.failed) < soonest {
		return out, false
	}
	ring, err := d.keys.Ring(ctx)
	if err != nil {
		d.failed = now
		return out, false
	}
	d.failed = time.Time{}
	if key := ring.Current(); d.summer == nil || d.summer.KeyID() != key.ID() {
		d.summer = key.Summer()
	}
	sum := d.summer.Sum("decision/"+domain, text)
	copy(out[:], sum[:])
	return out, true
}
