package lifecycle

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// The interval of health checks of the API server, and their timeout.
const (
	reachEvery   = 2 * time.Second
	reachTimeout = 3 * time.Second
)

// Reachability logs when the API server, or etcd behind it, does not answer, and when it answers again. All dependent code retries by
// itself and logs its recovery; in between, only these lines explain the standstill.
type Reachability struct {
	ask func(ctx context.Context) error
	now func() time.Time
	log *slog.Logger

	since time.Time // when the API server stopped answering; zero while it answers
}

// NewReachability checks the API server of cfg, on its own connection.
func NewReachability(cfg *rest.Config, log *slog.Logger) (*Reachability, error) {
	own := rest.CopyConfig(cfg)
	own.Timeout = reachTimeout
	client, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(own)
	if err != nil {
		return nil, err
	}
	url := base.JoinPath("livez").String()
	return &Reachability{now: time.Now, log: log, ask: func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		// A server that refuses the request is reachable, too.
		if resp.StatusCode >= http.StatusInternalServerError {
			return fmt.Errorf("GET /livez: %s", resp.Status)
		}
		return nil
	}}, nil
}

// Once checks the API server, and returns when to check again.
func (r *Reachability) Once(ctx context.Context) (time.Duration, error) {
	if err := r.ask(ctx); ctx.Err() == nil {
		r.evaluate(err)
	}
	return reachEvery, nil
}

// evaluate records the result of one check.
func (r *Reachability) evaluate(err error) {
	switch {
	case err != nil && r.since.IsZero():
		r.since = r.now()
		r.log.Warn("the API server does not answer", "error", err)
	case err == nil && !r.since.IsZero():
		r.log.Info("the API server answers again", "after", r.now().Sub(r.since).Round(time.Second))
		r.since = time.Time{}
	}
}
