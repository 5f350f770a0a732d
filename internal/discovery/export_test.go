package discovery

import (
	"context"
	"maps"
	"slices"

	"ephor.invalid/ephor/internal/kubeversion"
)

// Question asks one API server, as Once does at intervals.
func (s *Servers) Question(ctx context.Context) error { return s.askOne(ctx) }

// Seen returns the versions that answered within the last ten minutes, oldest first.
func (s *Servers) Seen() []kubeversion.Minor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.seen))
}
