package discovery

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/names"
)

// ServersLease is the Lease in which the replicas note which versions of API servers answered, and ServersAnnotation its annotation with the times
// by version.
const (
	ServersLease      = "ephor-api-servers"
	ServersAnnotation = names.Domain + "api-server-versions"
)

// Servers follows the versions of the API servers of a cluster. During an upgrade they differ, and a request does not say which one asks: the
// version that counts is the oldest one that answered within the last ten minutes. It rises when only newer ones answer. Servers is safe for
// concurrent use.
type Servers struct {
	// Ask returns the version of one of the API servers, over a new connection.
	Ask func(ctx context.Context) (kubeversion.Minor, error)
	// Share tells the other replicas which versions answered when, and returns what all of them saw; nil without other replicas. With an error
	// the replica counts only what it saw itself.
	Share func(ctx context.Context, seen map[kubeversion.Minor]time.Time) (map[kubeversion.Minor]time.Time, error)
	Now   func() time.Time
	Log   *slog.Logger

	mu       sync.Mutex
	seen     map[kubeversion.Minor]time.Time
	current  kubeversion.Minor
	watchers []func(kubeversion.Minor)
}

// The time for which an answer counts, the interval of questions, and the pause after a question without an answer. Every replica asks, so each
// API server answers many times in that time.
const (
	answerCounts = 10 * time.Minute
	askEvery     = 30 * time.Second
	askAgain     = 5 * time.Second
)

// Version returns the version that counts; the newest known one before the first answer.
func (s *Servers) Version() kubeversion.Minor {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Changed calls f after each change of the version.
func (s *Servers) Changed(f func(kubeversion.Minor)) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = append(s.watchers, f)
}

// Begin asks one API server. Without an answer, the newest known version counts until Once gets one.
func (s *Servers) Begin(ctx context.Context) {
	if err := s.askOne(ctx); err != nil && ctx.Err() == nil {
		s.Log.Warn("the version of the API server is not known yet", "error", err)
	}
}

// Once asks one API server, and returns when to ask again. An API server that does not answer is no failure.
func (s *Servers) Once(ctx context.Context) (time.Duration, error) {
	if err := s.askOne(ctx); err != nil {
		return askAgain, nil
	}
	return askEvery, nil
}

// askOne asks one API server.
func (s *Servers) askOne(ctx context.Context) error {
	v, err := s.Ask(ctx)
	if err != nil {
		return err
	}
	now := s.Now()
	s.mu.Lock()
	mine := maps.Clone(s.seen)
	s.mu.Unlock()
	if mine == nil {
		mine = map[kubeversion.Minor]time.Time{}
	}
	mine[v] = now
	if s.Share != nil {
		all, err := s.Share(ctx, mine)
		if err != nil {
			s.Log.Warn("the versions of the API servers cannot be shared with the other replicas", "error", err)
		}
		for v, at := range all {
			if at.After(mine[v]) {
				mine[v] = at
			}
		}
	}
	s.update(mine, now)
	return nil
}

// update stores what was seen, and calls the watchers when the version changes.
func (s *Servers) update(seen map[kubeversion.Minor]time.Time, now time.Time) {
	maps.DeleteFunc(seen, func(_ kubeversion.Minor, at time.Time) bool { return now.Sub(at) > answerCounts })
	s.mu.Lock()
	before := s.current
	s.seen = seen
	if len(seen) > 0 {
		s.current = slices.Min(slices.Collect(maps.Keys(seen)))
	}
	version, watchers := s.current, slices.Clone(s.watchers)
	s.mu.Unlock()
	if version == before {
		return
	}
	s.Log.Info("policies are evaluated as in this version of Kubernetes", "version", version.String(), "answered", len(seen))
	for _, f := range watchers {
		f(version)
	}
}
