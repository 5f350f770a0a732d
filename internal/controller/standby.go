package controller

import (
	"context"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// otherHolder pauses work while another program holds the Lease of a controller: Kyverno, which works on the same objects.
type otherHolder struct {
	lease string
	// pause is called after each change, and may be called again with the same value.
	pause func(paused bool)
	log   *slog.Logger

	mu     sync.Mutex
	object *coordinationv1.Lease
	known  bool // the lease is followed; otherwise nothing expires, because the holder's actions are unknown

	// Only reconcile uses these fields.
	holder  string
	renewed time.Time // the last renewal that the holder wrote
	seen    time.Time // when this process saw it, since clocks differ
	paused  bool
}

// StandBy returns the row that pauses the work of this replica while another program holds the lease, which leases lists and watches. The
// work is also paused until the lease is read for the first time.
func StandBy(name string, leases toolscache.ListerWatcherWithContext, lease string, pause func(paused bool), log *slog.Logger) Row {
	pause(true)
	s := &otherHolder{lease: lease, pause: pause, log: log}
	set := func(l *coordinationv1.Lease, known bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.object, s.known = l, known
	}
	var listed *coordinationv1.Lease
	source := &Reflector[*coordinationv1.Lease]{From: leases, Key: func(*coordinationv1.Lease) string { return "" }, After: []string{""}}
	source.Sink = Sink[*coordinationv1.Lease]{
		Begin: func() { listed = nil },
		Seen:  func(l *coordinationv1.Lease) error { listed = l; set(l, true); return nil },
		Gone:  func(*coordinationv1.Lease) { set(nil, true) },
		Listed: func(string) error {
			set(listed, true)
			return nil
		},
		Failed: func(err error, wait time.Duration) {
			set(nil, false)
			log.Warn("cannot follow the lease", "lease", lease, "again in", wait, "error", err)
		},
	}
	return Row{Name: name, Sources: []Source{source}, Reconcile: func(context.Context, string) (time.Duration, error) {
		s.mu.Lock()
		object, known := s.object, s.known
		s.mu.Unlock()
		if !known {
			return 0, nil
		}
		return s.look(object, time.Now()), nil
	}}
}

// look pauses the work while the holder is another program that has renewed the Lease in time, and returns how long that lasts without
// another renewal.
func (s *otherHolder) look(l *coordinationv1.Lease, now time.Time) (left time.Duration) {
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
			s.log.Info("standing by: another program holds the lease", "lease", s.lease, "holder", holder)
		} else {
			s.log.Info("no longer standing by", "lease", s.lease)
		}
	}
	s.pause(left > 0)
	return max(left, 0)
}
