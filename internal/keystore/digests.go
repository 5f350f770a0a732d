package keystore

import (
	"context"
	"sync"
	"time"
)

// Digests makes keyed digests of texts that may be guessed. It is safe for concurrent use.
type Digests struct {
	keys *Cached

	mu     sync.Mutex
	failed time.Time // when the keys could not be read
}

// NewDigests returns Digests with the current one of these keys.
func NewDigests(keys *Cached) *Digests { return &Digests{keys: keys} }

// Digest returns 16 bytes that the current key makes of a text in a domain; false while there is no key. A Secret that cannot be read is read
// again after some seconds, since each record has several digests.
func (d *Digests) Digest(ctx context.Context, domain, text string) (out [16]byte, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
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
	sum := ring.Current().Sum("decision/"+domain, text)
	copy(out[:], sum[:])
	return out, true
}
