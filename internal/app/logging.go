package app

import (
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	terminal "golang.org/x/term"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"ephor.invalid/ephor/internal/observe"
)

// logFlags configure the log.
type logFlags struct {
	verbosity     int
	format, times string
	noColor       bool
}

func (f *logFlags) register(fs *pflag.FlagSet) {
	fs.IntVarP(&f.verbosity, "v", "v", 2, "log verbosity; 4 or higher for debugging")
	fs.StringVar(&f.format, "loggingFormat", "text", "log format: text or json")
	fs.StringVar(&f.times, "loggingtsFormat", "default", "format of times in the log: "+strings.Join(observe.TimeFormats(), ", "))
	fs.BoolVar(&f.noColor, "disableLogColor", false, "disable colours in the text format, even on a terminal")
}

// handler returns the log handler, or an error for invalid flags.
func (f *logFlags) handler() (slog.Handler, error) {
	h, err := observe.NewHandler(os.Stderr, observe.LogOptions{
		Format: f.format, Times: f.times, Verbosity: f.verbosity, Color: !f.noColor && terminal.IsTerminal(int(os.Stderr.Fd())),
	})
	if err != nil {
		return nil, fmt.Errorf("--loggingFormat, --loggingtsFormat: %w", err)
	}
	return h, nil
}

// logger returns the logger of the process and sets it for the libraries. The flags must be valid.
func (f *logFlags) logger() *slog.Logger {
	h, err := f.handler()
	if err != nil {
		h = slog.NewTextHandler(os.Stderr, nil)
	}
	ctrllog.SetLogger(logr.FromSlogHandler(h))
	klog.SetSlogLogger(slog.New(h))
	return slog.New(h)
}
