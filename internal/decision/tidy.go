package decision

import (
	"context"
	"log/slog"
	"time"
)

// tidyEvery is the interval at which old records are deleted, even if none arrive, and the time limit of one deletion.
const tidyEvery = time.Minute

// Tidier is a Store that can delete its old records. Tidy is safe for concurrent use.
type Tidier interface {
	Tidy(ctx context.Context) error
}

// TidyRegularly deletes the old records of a store, if it is a Tidier, until ctx is done.
func TidyRegularly(ctx context.Context, s Store, log *slog.Logger) {
	t, ok := s.(Tidier)
	if !ok {
		return
	}
	every := time.NewTicker(tidyEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		limited, cancel := context.WithTimeout(ctx, tidyEvery)
		if err := t.Tidy(limited); err != nil && ctx.Err() == nil {
			log.Warn("old decisions were not deleted", "error", err)
		}
		cancel()
	}
}
