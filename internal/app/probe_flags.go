package app

import (
	"log/slog"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/lifecycle"
)

// probeFlags configure the probes of a controller without webhooks.
type probeFlags struct {
	host string
	port int // 0 for none, because another controller of the process serves the probes
}

func (f *probeFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.host, "healthHost", "", "address on which the health probes are served; empty for all addresses")
	fs.IntVar(&f.port, "healthPort", 9080, "HTTP port of the health probes; 0 to serve none")
}

// listen opens the port.
func (f *probeFlags) listen(ready func() error, log *slog.Logger) (lifecycle.Probes, error) {
	return lifecycle.ListenProbes(f.host, f.port, ready, log)
}
