package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/ephor-dev/ephor/internal/app/flagset"
	"github.com/ephor-dev/ephor/internal/app/results"
	"github.com/ephor-dev/ephor/internal/app/webhookserver"
	"github.com/ephor-dev/ephor/internal/failopen"
)

// cleanupFlags are the flags of the cleanup controller.
type cleanupFlags struct {
	commonFlags
	webhookserver.Flags
	host           string
	port           int
	deadManSeconds int
	events         results.EventFlags
	calls          callFlags
	globals        globalFlags
	exceptions     exceptionFlags
	deletion       deletionFlags
}

// deletionFlags configure when and how many objects are deleted.
type deletionFlags struct {
	ttlInterval    time.Duration
	maxDeletions   int
	protectManaged bool
	dumpPayload    bool
}

func (f *deletionFlags) register(fs *pflag.FlagSet) {
	fs.DurationVar(&f.ttlInterval, "ttlReconciliationInterval", time.Minute, "how often it is looked again at which resources with TTL labels are served and may be deleted; with --maxDeletionsPerRun also how often what is due is deleted")
	fs.IntVar(&f.maxDeletions, "maxDeletionsPerRun", 0, "a run of a cleanup policy that would delete more objects deletes none, and says so; of TTL labels for each --ttlReconciliationInterval and resource. 0 for no limit")
}

// complete checks the flags together.
func (f *deletionFlags) complete() error {
	var errs []error
	if f.ttlInterval <= 0 {
		errs = append(errs, errors.New("--ttlReconciliationInterval must be positive"))
	}
	if f.maxDeletions < 0 {
		errs = append(errs, errors.New("--maxDeletionsPerRun must not be negative"))
	}
	return errors.Join(errs...)
}

func (f *cleanupFlags) register(fs *pflag.FlagSet) {
	f.commonFlags.register(fs)
	f.Flags.Register(fs)
	fs.StringVar(&f.host, "cleanupServerHost", "", "address to listen on; empty for all")
	fs.IntVar(&f.port, "cleanupServerPort", 9443, "port to listen on")
	fs.IntVar(&f.deadManSeconds, "deadManSeconds", 0, fmt.Sprintf("when no replica has answered reviews for so many seconds, at least %.0f, "+
		"webhooks of resources that fail closed fail open until one does; 0 for never", failopen.MinGrace.Seconds()))
	f.events.Register(fs)
	f.calls.register(fs, otherResponse)
	f.globals.register(fs)
	f.exceptions.register(fs)
	f.deletion.register(fs)
	flagset.Switch(fs, &f.deletion.protectManaged, "protectManagedResources", envProtect, false, "delete nothing that is labelled as managed by kyverno")
	fs.BoolVar(&f.deletion.dumpPayload, "dumpPayload", false, "log reviews and answers, with --v=4 and more; contents of Secrets are left out")
	flagset.Accept(fs, "C")
}

// complete checks combinations of flags.
func (f *cleanupFlags) complete(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	errs := []error{
		flagset.ReadSwitches(fs, lookup), f.commonFlags.complete(fs), f.Flags.Complete(), f.calls.complete(fs, lookup), f.globals.complete(), f.deletion.complete(),
	}
	if f.deadManSeconds != 0 && f.grace() < failopen.MinGrace {
		errs = append(errs, fmt.Errorf("--deadManSeconds: %d is less than %.0f, within which another replica takes over", f.deadManSeconds, failopen.MinGrace.Seconds()))
	}
	return errors.Join(errs...)
}

func (f *cleanupFlags) grace() time.Duration { return time.Duration(f.deadManSeconds) * time.Second }
