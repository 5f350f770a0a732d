package lifecycle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"ephor.invalid/ephor/internal/listwatch"
	"ephor.invalid/ephor/internal/names"
)

// LeaderLabel on a Lease marks that Ephor wrote its holder. Kyverno's controllers use the same Leases and do not change the label, so it
// then does not match their names.
const LeaderLabel = names.Domain + "leader"

// leaderMark returns the value of LeaderLabel for a holder, whose name may be too long for a label.
func leaderMark(identity string) string {
	sum := sha256.Sum256([]byte(identity))
	return hex.EncodeToString(sum[:16])
}

// Leases reads and watches the Leases of a namespace.
type Leases interface {
	List(context.Context, metav1.ListOptions) (*coordinationv1.LeaseList, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// Standby pauses work while another program holds the Lease of a controller: Kyverno, which works on the same objects. The work is also
// paused until the Lease is read for the first time.
type Standby struct {
	Leases Leases
	Lease  string
	// Pause is called after each change, and may be called again with the same value.
	Pause func(paused bool)
	Log   *slog.Logger

	holder  string
	renewed time.Time // the last renewal that the holder wrote
	seen    time.Time // when this process saw it, since clocks differ
	paused  bool
}

// Run follows the Lease until ctx is done.
func (s *Standby) Run(ctx context.Context) {
	s.Pause(true)
	pause := listwatch.Pause{First: firstPause, Longest: longestPause}
	for ctx.Err() == nil {
		began := time.Now()
		err := s.follow(ctx)
		if ctx.Err() != nil || pause.Worked(began) && err == nil {
			continue
		}
		wait := pause.Next()
		if err != nil {
			s.Log.Warn("cannot follow the lease", "lease", s.Lease, "again in", wait, "error", err)
		}
		listwatch.Sleep(ctx, wait)
	}
}

// follow reads the Lease and watches it, until the watch ends. Without a watch nothing expires, because the holder's actions are then
// unknown.
func (s *Standby) follow(ctx context.Context) error {
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, s.Lease).String()}
	list, err := s.Leases.List(ctx, options)
	if err != nil {
		return err
	}
	var lease *coordinationv1.Lease
	if len(list.Items) > 0 {
		lease = &list.Items[0]
	}
	options.ResourceVersion = list.ResourceVersion
	events, err := s.Leases.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer events.Stop()
	for {
		var expires <-chan time.Time
		if left := s.look(lease, time.Now()); left > 0 {
			expires = time.After(left)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-expires:
		case e, open := <-events.ResultChan():
			if !open {
				return nil
			}
			switch o := e.Object.(type) {
			case *coordinationv1.Lease:
				if lease = o; e.Type == watch.Deleted {
					lease = nil
				}
			default:
				return errors.New("the watch of the lease failed")
			}
		}
	}
}

// look pauses the work while the holder is another program that has renewed the Lease in time, and returns how long that lasts without
// another renewal.
func (s *Standby) look(l *coordinationv1.Lease, now time.Time) (left time.Duration) {
	holder := ""
	if l != nil && l.Spec.HolderIdentity != nil && l.Labels[LeaderLabel] != leaderMark(*l.Spec.HolderIdentity) {
		holder = *l.Spec.HolderIdentity
	}
	if holder != "" {
		var renewed time.Time
		if l.Spec.RenewTime != nil {
			renewed = l.Spec.RenewTime.Time
		}
		if holder != s.holder || !renewed.Equal(s.renewed) {
			s.renewed, s.seen = renewed, now
		}
		duration := time.Second
		if d := l.Spec.LeaseDurationSeconds; d != nil && *d > 0 {
			duration = time.Duration(*d) * time.Second
		}
		left = s.seen.Add(duration).Sub(now)
	}
	s.holder = holder
	if paused := left > 0; paused != s.paused {
		s.paused = paused
		if paused {
			s.Log.Info("standing by: another program holds the lease", "lease", s.Lease, "holder", holder)
		} else {
			s.Log.Info("no longer standing by", "lease", s.Lease)
		}
	}
	s.Pause(left > 0)
	return max(left, 0)
}
