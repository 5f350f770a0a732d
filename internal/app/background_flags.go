package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ephor-dev/ephor/internal/app/flagset"
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
	fs.IntVar(&f.workers, "genWorkers", 10, "UpdateRequests that are carried out at once")
	fs.IntVar(&f.maxReports, "maxBackgroundReports", 10_000, "EphemeralReports that may be waiting for the reports controller; with more, results are not reported")
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
		Short: "Carry out what policies ask for: generated objects and changes of existing ones",
		Long: "Carries out the UpdateRequests that the admission controller writes, and applies generate and mutate rules to what\n" +
			"exists already. Flags and environment have Kyverno's names; flags of Kyverno's that have no meaning here are\n" +
			"accepted, with a line in the log.",
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
