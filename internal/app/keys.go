package app

import (
	"context"
	"sync"
	"time"

	"github.com/ephor-dev/ephor/internal/keystore"
	"github.com/ephor-dev/ephor/internal/seal"
)

const (
	// keysFor is how long keys are used before they are read again: by then every replica marks with the current one.
	keysFor = time.Minute
	// keysPause is between two reads for keys that are not known: who marks objects with invented keys must not make us ask for
	// each of them.
	keysPause = 5 * time.Second
)

// keys are those of a Secret, read now and then. All methods are safe for all goroutines.
type keys struct {
	store *keystore.Store
	now   func() time.Time

	mu   sync.Mutex
	ring *seal.Keyring
	at   time.Time
}

func newKeys(s *keystore.Store) *keys { return &keys{store: s, now: time.Now} }

// get is the keyring. fresh asks for what another replica, or an administrator, added a moment ago. Once there is a keyring, one
// that cannot be read again goes on to be used: it still proves what it proved.
func (k *keys) get(ctx context.Context, fresh bool) (*seal.Keyring, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
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
