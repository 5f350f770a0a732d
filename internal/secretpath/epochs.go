package secretpath

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"ephor.invalid/ephor/internal/names"
)

// EpochsAnnotation holds the text of the Epochs, on the Secret with the key.
const EpochsAnnotation = names.Domain + "webhook-epochs"

// Epochs are the epochs in use. They are stored beside the key and hold no secret.
type Epochs struct {
	Current  Mark  `json:"current"`
	Previous *Mark `json:"previous,omitempty"`
}

// Mark is one epoch. Its times are for people and for computing its age; no epoch ends because of a clock.
type Mark struct {
	ID    string    `json:"id"`
	Began time.Time `json:"began"`
	// Retired is when all webhook configurations had the next epoch; zero while some may still have this one.
	Retired time.Time `json:"retired,omitzero"`
}

// ParseEpochs parses the text that Epochs.String returns.
func ParseEpochs(text string) (Epochs, error) {
	var e Epochs
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return Epochs{}, fmt.Errorf("the epochs of webhook paths: %w", err)
	}
	if e.Current.ID == "" || e.Previous != nil && e.Previous.ID == "" {
		return Epochs{}, fmt.Errorf("the epochs of webhook paths: one has no ID in %.200q", text)
	}
	return e, nil
}

// String returns the text to store.
func (e Epochs) String() string {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // strings and times always encode
	}
	return string(text)
}

// NewID returns the ID of a new epoch.
func NewID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// Begin returns the epochs with id as the current one; the current one becomes the previous one.
func (e Epochs) Begin(id string, now time.Time) Epochs {
	next := Epochs{Current: Mark{ID: id, Began: now.UTC().Truncate(time.Second)}}
	if e.Current.ID != "" {
		previous := e.Current
		next.Previous = &previous
	}
	return next
}

// Retire returns the epochs, with the previous one marked as retired.
func (e Epochs) Retire(now time.Time) Epochs {
	if e.Previous != nil {
		previous := *e.Previous
		previous.Retired = now.UTC().Truncate(time.Second)
		e.Previous = &previous
	}
	return e
}

// End returns the epochs without the previous one.
func (e Epochs) End() Epochs {
	e.Previous = nil
	return e
}

// Rotation decides the next step for the only process that writes the configurations. It measures times with its own clock, so that
// clocks of different machines need not agree.
type Rotation struct {
	// Period is the maximum age of an epoch before the next one begins.
	Period time.Duration
	// Settle is the time that the configurations wait until all replicas know a new epoch.
	Settle time.Duration
	// Overlap is the time for which a retired epoch is still accepted.
	Overlap time.Duration

	current, retired         string
	currentSince, retiredFor time.Time
}

// Step is the next action.
type Step struct {
	// Begin: a new epoch begins. End: the previous epoch ends. At most one of them is set, and must be stored.
	Begin, End bool
	// Previous: the configurations use the previous epoch, otherwise the current one.
	Previous bool
	// Retire: once all configurations use the current epoch, the caller retires the previous one.
	Retire bool
	// Wait is the time until the next call if no event occurs before.
	Wait time.Duration
}

// Next returns the next step. asked requests the early end of the current epoch. now is from the process's own clock.
func (r *Rotation) Next(e Epochs, asked bool, now time.Time) Step {
	if e.Current.ID != r.current {
		r.current, r.currentSince = e.Current.ID, now
	}
	if e.Previous == nil {
		left := r.Period - max(now.Sub(r.currentSince), now.Sub(e.Current.Began))
		ahead := e.Current.Began.Sub(now) > r.Period // the clock that set the time was wrong
		if asked || left <= 0 || ahead {
			return Step{Begin: true}
		}
		return Step{Wait: left}
	}
	if e.Previous.Retired.IsZero() {
		if left := r.Settle - now.Sub(r.currentSince); left > 0 {
			return Step{Previous: true, Wait: left}
		}
		return Step{Retire: true, Wait: r.Settle}
	}
	if e.Previous.ID != r.retired {
		r.retired, r.retiredFor = e.Previous.ID, now
	}
	if left := r.Overlap - now.Sub(r.retiredFor); left > 0 {
		return Step{Wait: left}
	}
	return Step{End: true}
}
