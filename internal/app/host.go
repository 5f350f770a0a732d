package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"ephor.invalid/ephor/internal/flagset"
)

// Host is what a process finds around it: the API server, the environment variables and the network.
type Host struct {
	Config *rest.Config
	Lookup func(name string) (string, bool)
	Listen func(network, address string) (net.Listener, error)
	Log    *slog.Logger
}

// RunOn runs a controller (admission, background, cleanup or reports) on a host until ctx is done and it has shut down in order. The
// simulation runs whole processes this way, several in one program: what tunes the memory of a program is left out.
func RunOn(ctx context.Context, h Host, process string, args ...string) error {
	fs := pflag.NewFlagSet(process, pflag.ContinueOnError)
	var common *commonFlags
	var complete func() error
	var run func(context.Context, env, *base) error
	switch process {
	case "admission":
		f := &admissionFlags{}
		f.register(fs)
		common, complete = &f.commonFlags, func() error { return f.complete(fs, h.Lookup) }
		run = func(ctx context.Context, e env, b *base) error { return runAdmission(ctx, f, e, b) }
	case "background":
		f := &backgroundFlags{}
		f.register(fs)
		common, complete = &f.commonFlags, func() error { return f.complete(fs, h.Lookup) }
		run = func(ctx context.Context, e env, b *base) error { return runBackground(ctx, f, e, b) }
	case "cleanup":
		f := &cleanupFlags{}
		f.register(fs)
		common, complete = &f.commonFlags, func() error { return f.complete(fs, h.Lookup) }
		run = func(ctx context.Context, e env, b *base) error { return runCleanup(ctx, f, e, b) }
	case "reports":
		f := &reportsFlags{}
		f.register(fs)
		common, complete = &f.commonFlags, func() error { return f.complete(fs, h.Lookup) }
		run = func(ctx context.Context, e env, b *base) error { return runReports(ctx, f, e, b) }
	default:
		return fmt.Errorf("there is no controller %q", process)
	}
	if err := fs.Parse(args); err != nil {
		return flagset.Suggest(nil, err)
	}
	if err := complete(); err != nil {
		return err
	}
	cfg := rest.CopyConfig(h.Config)
	cfg.QPS, cfg.Burst = common.qps, common.burst
	e := environment(h.Lookup)
	b := &base{log: h.Log, listen: h.Listen}
	if err := b.connect(ctx, common, e, process, cfg); err != nil {
		return err
	}
	defer b.observing.Close()
	return run(ctx, e, b)
}
