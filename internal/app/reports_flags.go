package app

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/ephor-dev/ephor/internal/app/flagset"
	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/family"
)

// reportsFlags are the flags of the reports controller.
type reportsFlags struct {
	evaluatorFlags
	probeFlags
	scan  bool
	write bool
	open  bool
	// switches holds the flags of kinds of policies with a family.Switch.
	switches    map[*family.Kind]*bool
	workers     int
	interval    time.Duration
	skipFilters bool
	checkKinds  bool
	aggregate   bool
	takers      int
	// admissionReports: results of admission are merged into reports even without scans.
	admissionReports bool
	dashboard        dashboardFlags
	decisions        decisionStoreFlags
}

func (f *reportsFlags) register(fs *pflag.FlagSet) {
	f.evaluatorFlags.register(fs, otherResponse)
	f.qps, f.burst = 300, 300
	fs.Lookup("clientRateLimitQPS").DefValue, fs.Lookup("clientRateLimitBurst").DefValue = "300", "300"
	f.probeFlags.register(fs)
	f.registerOwn(fs)
	fs.BoolVar(&f.admissionReports, "admissionReports", true, "take results of admission into the reports; without it and without --backgroundScan there are no reports")
	flagset.Accept(fs, "R")
}

// registerOwn registers the flags that only this controller has.
func (f *reportsFlags) registerOwn(fs *pflag.FlagSet) {
	fs.BoolVar(&f.scan, "backgroundScan", true, "evaluate existing objects")
	fs.BoolVar(&f.write, "policyReports", true, "write policy reports; without them, scans only give events and metrics")
	f.switches = map[*family.Kind]*bool{}
	for _, k := range compile.Kinds {
		if s := k.Switch; s != nil {
			f.switches[k] = fs.Bool(s.Flag, s.On, s.Usage)
		}
	}
	fs.BoolVar(&f.open, "openreportsEnabled", false, "write reports as openreports.io/v1alpha1")
	fs.IntVar(&f.workers, "backgroundScanWorkers", 2, "resources that are evaluated at once")
	fs.DurationVar(&f.interval, "backgroundScanInterval", time.Hour, "how often everything is evaluated again without changes")
	fs.BoolVar(&f.skipFilters, "skipResourceFilters", true, "scans also evaluate what the resourceFilters of the ConfigMap exclude from admission")
	fs.BoolVar(&f.checkKinds, "reportsCRDsSanityChecks", true, "end at once where the kinds of reports are not defined")
	fs.BoolVar(&f.aggregate, "aggregateReports", true, "take results of admission, and of work in the background, into the reports")
	fs.IntVar(&f.takers, "aggregationWorkers", 10, "resources whose results of admission are taken into reports at once")
	f.dashboard.register(fs)
	f.decisions.register(fs)
}

// complete checks combinations of flags.
func (f *reportsFlags) complete(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	return errors.Join(f.evaluatorFlags.complete(fs, lookup), f.completeOwn())
}

func (f *reportsFlags) completeOwn() error {
	var errs []error
	if f.workers < 1 {
		errs = append(errs, errors.New("--backgroundScanWorkers must be positive"))
	}
	if f.interval <= 0 {
		errs = append(errs, errors.New("--backgroundScanInterval must be positive"))
	}
	if f.takers < 1 {
		errs = append(errs, errors.New("--aggregationWorkers must be positive"))
	}
	return errors.Join(append(errs, f.dashboard.complete(), f.decisions.complete())...)
}
