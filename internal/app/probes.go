package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/ephor-dev/ephor/internal/http1"
)

// probeFlags say where a controller without webhooks answers the kubelet.
type probeFlags struct {
	host string
	port int // 0: nowhere, since another controller of the process does
}

func (f *probeFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.host, "healthHost", "", "address for the probes; empty for all")
	fs.IntVar(&f.port, "healthPort", 9080, "port for the probes, over HTTP; 0 for no probes")
}

// probes answers the kubelet over HTTP: live at once, ready when ready gives no error.
type probes struct {
	listener net.Listener // nil: there are no probes
	ready    func() error
	log      *slog.Logger
}

// listen takes the port.
func (f *probeFlags) listen(ready func() error, log *slog.Logger) (p probes, err error) {
	p = probes{ready: ready, log: log}
	if f.port != 0 {
		p.listener, err = net.Listen("tcp", net.JoinHostPort(f.host, strconv.Itoa(f.port)))
	}
	return p, err
}

func (p probes) close() {
	if p.listener != nil {
		_ = p.listener.Close()
	}
}

// serve answers until ctx is done.
func (p probes) serve(ctx context.Context) error {
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
