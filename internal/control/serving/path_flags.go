package serving

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// PathFlags configure the secret segments of webhook paths.
type PathFlags struct {
	Secret            string
	rotation, overlap time.Duration
}

// The values of --webhookSecretPaths.
const (
	PathsOn     = "true"
	PathsOff    = "false"
	PathsAlways = "always"
)

func (f *PathFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.Secret, "webhookSecretPaths", PathsOn, "add a secret segment to the webhook paths and answer on no other path: true (unless --client-ca-file makes the API server present a certificate), always, or false")
	fs.DurationVar(&f.rotation, "webhookPathRotation", time.Hour, "how often the secret path segments are replaced; they are also replaced after every outage")
	fs.DurationVar(&f.overlap, "webhookPathOverlap", time.Minute, "how long the old path segments are still answered after the webhook configurations contain new ones")
}

func (f *PathFlags) complete() error {
	var errs []error
	if !slices.Contains([]string{PathsOn, PathsOff, PathsAlways}, f.Secret) {
		errs = append(errs, fmt.Errorf("--webhookSecretPaths: %q is not one of true, false and always", f.Secret))
	}
	if f.overlap < pathSettle || f.rotation < 2*f.overlap {
		errs = append(errs, fmt.Errorf("--webhookPathOverlap must be at least %s, --webhookPathRotation at least twice as long", pathSettle))
	}
	return errors.Join(errs...)
}

// WarnOpen logs a warning about a server that answers every client.
func WarnOpen(f PathFlags, clientCA string, log *slog.Logger) {
	if strings.EqualFold(f.Secret, PathsOff) && clientCA == "" {
		log.Warn("reviews are answered for every client: --webhookSecretPaths=false without --client-ca-file")
	}
}
