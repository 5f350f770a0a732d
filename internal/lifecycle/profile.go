package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"strconv"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/http1"
	"ephor.invalid/ephor/internal/lifecycle/firstgc"
)

// Profiles configure Go's profiles.
type Profiles struct {
	enabled bool
	port    int
	address string
}

// Register adds the flags.
func (f *Profiles) Register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.enabled, "profile", false, "serve Go profiles over plain HTTP under /debug/pprof/")
	fs.IntVar(&f.port, "profilePort", 6060, "port on which profiles are served")
	fs.StringVar(&f.address, "profileAddress", "", "address on which profiles are served; empty for all addresses")
}

// Serve serves profiles until ctx is done. It returns at once if they are disabled.
func (f *Profiles) Serve(ctx context.Context, log *slog.Logger) error {
	if !f.enabled {
		return nil
	}
	if runtime.MemProfileRate == 0 {
		runtime.MemProfileRate = firstgc.ProfileRate
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(f.address, strconv.Itoa(f.port)))
	if err != nil {
		return fmt.Errorf("serve profiles: %w", err)
	}
	mux := http.NewServeMux() // not the default mux, since any package may have added handlers to it
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := http1.Harden(&http.Server{Handler: mux})
	context.AfterFunc(ctx, func() { _ = server.Close() })
	log.Info("profiles are served", "address", listener.Addr().String())
	go func() {
		if err := server.Serve(http1.Bound(listener, http1.Limits{})); !errors.Is(err, http.ErrServerClosed) {
			log.Error("profiles are no longer served", "error", err)
		}
	}()
	return nil
}
