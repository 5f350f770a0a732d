package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/app/results"
	"ephor.invalid/ephor/internal/control/serving"
	"ephor.invalid/ephor/internal/failopen"
	"ephor.invalid/ephor/internal/flagset"
)

// cleanupFlags are the flags of the cleanup controller.
type cleanupFlags struct {
	commonFlags
	serving.Flags
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
	fs.DurationVar(&f.ttlInterval, "ttlReconciliationInterval", time.Minute, "interval between checks for resources that are served and that the controller may delete because of TTL labels; with --maxDeletionsPerRun also the interval between deletions of expired objects")
	fs.IntVar(&f.maxDeletions, "maxDeletionsPerRun", 0, "maximum number of objects that one run of a cleanup policy deletes; a run that would delete more deletes nothing and reports that. With TTL labels, the limit applies per resource type and --ttlReconciliationInterval. 0 for no limit")
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
	fs.StringVar(&f.host, "cleanupServerHost", "", "address to listen on; empty for all addresses")
	fs.IntVar(&f.port, "cleanupServerPort", 9443, "port to listen on")
	fs.IntVar(&f.deadManSeconds, "deadManSeconds", 0, fmt.Sprintf("make the resource webhooks that fail closed fail open after no replica has answered reviews for this many seconds (at least %.0f), "+
		"until a replica answers again; 0 to never do so", failopen.MinGrace.Seconds()))
	f.events.Register(fs)
	f.calls.register(fs, otherResponse)
	f.globals.register(fs)
	f.exceptions.register(fs)
	f.deletion.register(fs)
	flagset.Switch(fs, &f.deletion.protectManaged, "protectManagedResources", envProtect, false, "delete no resources that are labelled as managed by kyverno")
	fs.BoolVar(&f.deletion.dumpPayload, "dumpPayload", false, "log admission reviews and the responses, with --v=4 or higher; the contents of Secrets are omitted")
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
