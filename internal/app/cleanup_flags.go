package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/ephor-dev/ephor/internal/deadman"
)

// cleanupFlags are the flags of the cleanup controller (control plane reference §1.5).
type cleanupFlags struct {
	commonFlags
	certificateFlags
	host           string
	port           int
	deadManSeconds int
	events         eventFlags
}

func (f *cleanupFlags) register(fs *pflag.FlagSet) {
	f.commonFlags.register(fs)
	f.certificateFlags.register(fs)
	fs.StringVar(&f.host, "cleanupServerHost", "", "address to listen on; empty for all")
	fs.IntVar(&f.port, "cleanupServerPort", 9443, "port to listen on")
	fs.IntVar(&f.deadManSeconds, "deadManSeconds", 0, fmt.Sprintf("when nobody has answered reviews for so many seconds, at least %.0f, "+
		"webhooks of resources that fail closed are made to fail open until somebody does; 0 for never", deadman.MinGrace.Seconds()))
	f.events.register(fs)
	registerKnown(fs, knownFlags, "C")
	registerKnown(fs, laterFlags, "C")
}

// complete checks what cannot be seen flag by flag.
func (f *cleanupFlags) complete(fs *pflag.FlagSet) error {
	errs := []error{f.commonFlags.complete(fs), f.certificateFlags.complete()}
	if f.deadManSeconds != 0 && f.grace() < deadman.MinGrace {
		errs = append(errs, fmt.Errorf("--deadManSeconds: %d is less than %.0f, within which another replica takes over", f.deadManSeconds, deadman.MinGrace.Seconds()))
	}
	return errors.Join(errs...)
}

func (f *cleanupFlags) grace() time.Duration { return time.Duration(f.deadManSeconds) * time.Second }

// laterFlags are flags of the cleanup controller whose features are still to come in this process.
var laterFlags = []knownFlag{
	{"ttlReconciliationInterval", "C", false, whyCleanup},
	{"protectManagedResources", "C", true, whyCleanup},
	{"dumpPayload", "C", true, whyCleanup},
	{"apiCallTimeout", "C", false, whyCleanup},
	{"maxAPICallResponseLength", "C", false, whyCleanup},
	{"maxGlobalContextEntries", "C", false, whyCleanup},
	{"httpBlocklist", "C", false, whyCleanup},
	{"httpAllowlist", "C", false, whyCleanup},
	{"serviceTokenFile", "C", false, whyCleanup},
	{"serviceTokenHosts", "C", false, whyCleanup},
	{"webhookServerPort", "C", false, "the port is --cleanupServerPort"},
}

const whyCleanup = "cleanup policies are not carried out yet"
