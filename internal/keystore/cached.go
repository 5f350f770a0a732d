package keystore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/lock"
	"ephor.invalid/ephor/internal/seal"
)

const (
	// renewAfter is how long keys are used before the Secret is read again. After this time, every replica uses the current key.
	renewAfter = time.Minute
	// soonest is the minimum time between two reads of the Secret.
	soonest = 10 * time.Second
	// firstRetry is the time between two reads while no key is known.
	firstRetry = time.Second
)

// Cached holds the keys of a Secret in memory. It reads them at their first use, and periodically after that. It is safe for concurrent
// use.
type Cached struct {
	// Load reads the keys, as Store.Load does.
	Load func(context.Context) (*seal.Keyring, error)
	// Now is the clock.
	Now func() time.Time

	lock   lock.Lock
	ring   *seal.Keyring
	tried  time.Time // when the Secret was last read
	failed error     // of that read
}

// NewCached returns the keys of a Secret. reader reads from the API server directly, without a cache.
func NewCached(c client.Writer, reader client.Reader, namespace, name string) *Cached {
	store := &Store{Client: c, Reader: reader, Namespace: namespace, Name: name}
	return &Cached{Load: store.Load, Now: time.Now}
}

// Keys returns Fresh or Ring.
func (c *Cached) Keys(ctx context.Context, fresh bool) (*seal.Keyring, error) {
	if fresh {
		return c.Fresh(ctx)
	}
	return c.Ring(ctx)
}

// Ring returns the keys. While the Secret cannot be read, it returns the last known keys; if there are none, an error.
func (c *Cached) Ring(ctx context.Context) (*seal.Keyring, error) {
	ring, err := c.get(ctx, renewAfter)
	if ring != nil {
		return ring, nil
	}
	return nil, err
}

// Fresh returns keys that are at most some seconds old, or the error of reading them. Use it for a seal whose key is not in Ring: with older
// keys, it would count as forged.
func (c *Cached) Fresh(ctx context.Context) (*seal.Keyring, error) {
	ring, err := c.get(ctx, soonest)
	if err != nil {
		return nil, err
	}
	return ring, nil
}

// get returns the last known keys, and the error of the last read.
func (c *Cached) get(ctx context.Context, age time.Duration) (*seal.Keyring, error) {
	unlock, err := c.lock.Lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for the keys: %w", err)
	}
	defer unlock()
	now := c.Now()
	if c.ring == nil {
		age = firstRetry
	}
	if (c.ring != nil || c.failed != nil) && now.Sub(c.tried) < age {
		return c.ring, c.failed
	}
	ring, err := c.Load(ctx)
	switch {
	case err == nil:
		c.ring, c.tried, c.failed = ring, now, nil
	case !errors.Is(ctx.Err(), context.Canceled): // another caller may wait longer than one that leaves
		c.tried, c.failed = c.Now(), err
	}
	return c.ring, err
}
