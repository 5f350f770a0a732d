package admission

import (
	"context"
	"sync"
	"time"
)

// deadline is context.WithDeadline without its timer, because most reviews are answered before any code waits for the context to end. The
// first call of Done starts the timer.
type deadline struct {
	context.Context
	at time.Time

	mu     sync.Mutex
	armed  context.Context // with the timer; nil until Done is called
	cancel context.CancelFunc
	ended  bool
}

func withTimeout(parent context.Context, d time.Duration) *deadline {
	return &deadline{Context: parent, at: time.Now().Add(d)}
}

// Deadline implements context.Context.
func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

// Done implements context.Context.
func (d *deadline) Done() <-chan struct{} { return d.arm().Done() }

// Err implements context.Context.
func (d *deadline) Err() error {
	d.mu.Lock()
	armed, ended := d.armed, d.ended
	d.mu.Unlock()
	if armed != nil {
		return armed.Err()
	}
	if err := d.Context.Err(); err != nil {
		return err
	}
	// Each rule asks. Until reads only the monotonic clock, and Now reads two clocks.
	if ended || time.Until(d.at) <= 0 {
		return d.arm().Err()
	}
	return nil
}

func (d *deadline) arm() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.armed == nil {
		d.armed, d.cancel = context.WithDeadline(d.Context, d.at)
		if d.ended {
			d.cancel()
		}
	}
	return d.armed
}

// end cancels the context: the review is answered.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.cancel != nil {
		d.cancel()
	}
}
