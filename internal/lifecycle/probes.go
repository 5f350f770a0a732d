package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"

	"ephor.invalid/ephor/internal/http1"
)

// Probes answers the kubelet's HTTP probes: live at once, ready when the ready function returns no error.
type Probes struct {
	listener net.Listener // nil if there are no probes
	ready    func() error
	log      *slog.Logger
}

// ListenProbes opens the port for probes; port 0 disables them.
func ListenProbes(host string, port int, ready func() error, log *slog.Logger) (p Probes, err error) {
	p = Probes{ready: ready, log: log}
	if port != 0 {
		p.listener, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	}
	return p, err
}

func (p Probes) Close() {
	if p.listener != nil {
		_ = p.listener.Close()
	}
}

// Serve answers probes until ctx is done.
func (p Probes) Serve(ctx context.Context) error {
	if p.listener == nil {
		<-ctx.Done()
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health/liveness", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /health/readiness", func(w http.ResponseWriter, _ *http.Request) {
		if err := p.ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	s := http1.Harden(&http.Server{Handler: mux, ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug)})
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(http1.Bound(p.listener, http1.Limits{})); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the probes: %w", err)
	}
	return nil
}
