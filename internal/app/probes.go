package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// serveProbes answers the kubelet over HTTP until ctx is done: live at once, ready when ready gives no error.
func serveProbes(ctx context.Context, l net.Listener, ready func() error, log *slog.Logger) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health/liveness", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /health/readiness", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 30 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the probes: %w", err)
	}
	return nil
}
