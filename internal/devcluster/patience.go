package devcluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Patience returns how long tests wait for a control plane: three minutes on a quiet machine, longer on one that is slow or busy. Some
// controllers of the API server retry only after up to a minute, such as the one that removes definitions.
func Patience() time.Duration { return time.Duration(slowness() * float64(3*time.Minute)) }

// slowness is the factor by which this machine was slower than a quiet one when the process first asked, between 1 and 3.
var slowness = sync.OnceValue(func() float64 {
	const quiet = 15 * time.Millisecond // twice what a quiet machine needs
	block := make([]byte, 1<<20)
	begin := time.Now()
	for range 16 {
		sha256.Sum256(block)
	}
	return min(3, max(1, float64(time.Since(begin))/float64(quiet)))
})

// permanent marks an error after which waiting is useless.
type permanent struct{ error }

// Wait calls f until it returns nil, as long as Patience allows.
func (c *Cluster) Wait(ctx context.Context, what string, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, Patience())
	defer cancel()
	for {
		begin := time.Now()
		err := f()
		if err == nil {
			return nil
		}
		if p := (permanent{}); errors.As(err, &p) {
			return p
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s: %w", what, err)
		case <-time.After(Pause(time.Since(begin))):
		}
	}
}

// Pause returns how long to wait before a condition is looked at again, if one look took so long: a wait uses at most a quarter of a processor,
// since what it waits for needs the others. A look is often a kubectl: with half of a processor for each wait, e2e/reports used 184 s of CPU
// time and not 130 s, and ended no sooner.
func Pause(took time.Duration) time.Duration { return max(100*time.Millisecond, 3*took) }
