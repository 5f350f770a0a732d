package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/flagset"
)

// backgroundFlags are the flags of the background controller.
type backgroundFlags struct {
	evaluatorFlags
	probeFlags
	workers int
	// maxReports is the maximum number of EphemeralReports.
	maxReports int
	interval   time.Duration
}

// envScanInterval is the environment variable for the pause between two rounds over existing objects.
const envScanInterval = "BACKGROUND_SCAN_INTERVAL"

func (f *backgroundFlags) register(fs *pflag.FlagSet) {
	f.evaluatorFlags.register(fs, otherResponse)
	f.probeFlags.register(fs)
	f.registerOwn(fs)
	flagset.Accept(fs, "B")
}

// registerOwn registers the flags that only this controller has.
func (f *backgroundFlags) registerOwn(fs *pflag.FlagSet) {
	fs.IntVar(&f.workers, "genWorkers", 10, "number of UpdateRequests that are processed in parallel")
	fs.IntVar(&f.maxReports, "maxBackgroundReports", 10_000, "maximum number of EphemeralReports that wait for the reports controller; above it, results are not reported")
}

// complete checks the flags together.
func (f *backgroundFlags) complete(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	return errors.Join(f.evaluatorFlags.complete(fs, lookup), f.completeOwn(lookup))
}

func (f *backgroundFlags) completeOwn(lookup func(string) (string, bool)) error {
	errs := []error{f.readInterval(lookup)}
	if f.workers < 1 {
		errs = append(errs, errors.New("--genWorkers must be positive"))
	}
	if f.maxReports < 0 {
		errs = append(errs, errors.New("--maxBackgroundReports must not be negative"))
	}
	return errors.Join(errs...)
}

func (f *backgroundFlags) readInterval(lookup func(string) (string, bool)) (err error) {
	f.interval = time.Hour
	v, ok := lookup(envScanInterval)
	if !ok || v == "" {
		return nil
	}
	if f.interval, err = time.ParseDuration(v); err == nil && f.interval <= 0 {
		err = errors.New("it is not positive")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", envScanInterval, err)
	}
	return nil
}

func newBackgroundCommand() *cobra.Command {
	f := &backgroundFlags{}
	cmd := &cobra.Command{
		Use:   "background",
		Short: "Generate objects and change existing ones as policies require",
		Long: "Processes the UpdateRequests that the admission controller writes, and applies generate and mutate rules to existing\n" +
			"objects. Flags and environment variables have Kyverno's names; Kyverno flags that have no effect here are accepted\n" +
			"and logged.",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			return f.run(cmd.Context(), "background", func(ctx context.Context, e env, b *base) error { return runBackground(ctx, f, e, b) })
		},
	}
	f.register(cmd.Flags())
	cmd.SetFlagErrorFunc(flagset.Suggest)
	cmd.SetContext(context.Background())
	return cmd
}
