package app

import (
	"context"
	"fmt"
	"time"

	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/lock"
	"ephor.invalid/ephor/internal/seal"
)

const (
	// keysFor is how long keys are used before they are read again. After this time, every replica uses the current key.
	keysFor = time.Minute
	// keysPause is the pause between two reads for unknown keys, so that objects with invented keys do not each cause a request.
	keysPause = 5 * time.Second
)

// keys holds the keys of a Secret, and reads them periodically. Its methods are safe for concurrent use.
type keys struct {
	store *keystore.Store
	now   func() time.Time

	lock lock.Lock
	ring *seal.Keyring
	at   time.Time
}

func newKeys(s *keystore.Store) *keys { return &keys{store: s, now: time.Now} }

// get returns the keyring. If fresh is set, it includes keys that another replica or an administrator has just added. If a later read
// fails, the last keyring stays in use, since its proofs stay valid.
func (k *keys) get(ctx context.Context, fresh bool) (*seal.Keyring, error) {
	unlock, err := k.lock.Lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for the keys: %w", err)
	}
	defer unlock()
	age := k.now().Sub(k.at)
	if k.ring != nil && age < keysFor && (!fresh || age < keysPause) {
		return k.ring, nil
	}
	ring, err := k.store.Load(ctx)
	switch {
	case err == nil:
		k.ring, k.at = ring, k.now()
	case k.ring == nil:
		return nil, err
	default:
		k.at = k.now()
	}
	return k.ring, nil
}
