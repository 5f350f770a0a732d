package keystore

import (
	"context"
	"sync"
	"time"

	"github.com/ephor-dev/ephor/internal/seal"
)

const (
	// renewAfter is how long keys that were read are used without another look at the Secret.
	renewAfter = 5 * time.Minute
	// soonest is how long passes at least between two looks at the Secret.
	soonest = 10 * time.Second
)

// Cached holds the keys of a Secret in memory. They are read when they are needed first, and from time to time after that. It
// is safe for all goroutines.
type Cached struct {
	// Load reads the keys, as Store.Load does.
	Load func(context.Context) (*seal.Keyring, error)
	// Now is the clock.
	Now func() time.Time

	mu    sync.Mutex
	ring  *seal.Keyring
	tried time.Time // when the Secret was looked at last
}

// Ring returns the keys. While the Secret cannot be read, the keys that were read before are used; it is an error when there
// are none.
func (c *Cached) Ring(ctx context.Context) (*seal.Keyring, error) { return c.get(ctx, renewAfter) }

// Fresh returns the keys as they were some seconds ago at most: a seal was made with a key that Ring does not know.
func (c *Cached) Fresh(ctx context.Context) (*seal.Keyring, error) { return c.get(ctx, soonest) }

func (c *Cached) get(ctx context.Context, age time.Duration) (*seal.Keyring, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	if c.ring != nil && now.Sub(c.tried) < age {
		return c.ring, nil
	}
	ring, err := c.Load(ctx)
	if err != nil && c.ring == nil {
		return nil, err
	}
	c.tried = now
	if err == nil {
		c.ring = ring
	}
	return c.ring, nil
}
