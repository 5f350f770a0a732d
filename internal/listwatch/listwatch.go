package listwatch

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// GoesOn reports whether a paged list goes on after the error of a page, and then sets its continue token. The API server keeps the state of
// a list for some minutes only. Then it answers 410 with a token for the rest of the list in its current state, so that a list that takes
// longer does not start again at its first page. No object that exists all the time is left out.
func GoesOn(err error, token *string) bool {
	var status apierrors.APIStatus
	if *token == "" || !errors.As(err, &status) || !apierrors.IsResourceExpired(err) {
		return false
	}
	next := status.Status().ListMeta.Continue
	if next == "" || next == *token {
		return false
	}
	*token = next
	return true
}

// lasted is the duration from which on a watch proves that the API server serves it.
const lasted = 5 * time.Second

// Pause is the pause between the attempts of one loop to list and watch. It grows from First to Longest until a watch has lasted 5 seconds.
type Pause struct {
	First, Longest time.Duration
	next           time.Duration
}

// Next returns the pause before the next attempt, and doubles it for the one after.
func (p *Pause) Next() time.Duration {
	now := max(p.First, p.next)
	p.next = min(2*now, p.Longest)
	return now
}

// Worked makes the next pause the first one again if a watch that began then has lasted.
func (p *Pause) Worked(began time.Time) bool {
	if time.Since(began) < lasted {
		return false
	}
	p.next = 0
	return true
}

// After waits after a watch that began then and has ended: not at all if it has lasted and failed is nil. It ends with ctx.
func (p *Pause) After(ctx context.Context, began time.Time, failed error) {
	if p.Worked(began) && failed == nil {
		return
	}
	Sleep(ctx, p.Next())
}

// Sleep waits until the duration is over or ctx is done.
func Sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
