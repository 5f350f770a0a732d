package serving

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/pflag"
)

// PathFlags configure the secret segments of webhook paths.
type PathFlags struct {
	secret            string
	rotation, overlap time.Duration
}

// The values of --webhookSecretPaths.
const (
	pathsOn     = "true"
	pathsOff    = "false"
	pathsAlways = "always"
)

func (f *PathFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.secret, "webhookSecretPaths", pathsOn, "add a secret segment to the webhook paths and answer on no other path: true (unless --client-ca-file makes the API server present a certificate), always, or false")
	fs.DurationVar(&f.rotation, "webhookPathRotation", time.Hour, "how often the secret path segments are replaced; they are also replaced after every outage")
	fs.DurationVar(&f.overlap, "webhookPathOverlap", time.Minute, "how long the old path segments are still answered after the webhook configurations contain new ones")
}

func (f *PathFlags) complete() error {
	var errs []error
	if !slices.Contains([]string{pathsOn, pathsOff, pathsAlways}, f.secret) {
		errs = append(errs, fmt.Errorf("--webhookSecretPaths: %q is not one of true, false and always", f.secret))
	}
	if f.overlap < pathSettle || f.rotation < 2*f.overlap {
		errs = append(errs, fmt.Errorf("--webhookPathOverlap must be at least %s, --webhookPathRotation at least twice as long", pathSettle))
	}
	return errors.Join(errs...)
}

// on reports whether webhook paths contain a secret segment. If an authority for client certificates is set, they need none, because the API
// server then presents a certificate.
func (f PathFlags) on(c ClientFlags) bool {
	return f.secret == pathsAlways || f.secret == pathsOn && c.clientCA == ""
}

// warn logs a warning about a server that answers every client.
func (f PathFlags) warn(c ClientFlags, log *slog.Logger) {
	if f.secret == pathsOff && c.clientCA == "" {
		log.Warn("reviews are answered for every client: --webhookSecretPaths=false without --client-ca-file")
	}
}
