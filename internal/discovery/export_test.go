package discovery

import "context"

// Question asks one API server, as Run does at intervals.
func (s *Servers) Question(ctx context.Context) error { return s.once(ctx) }
