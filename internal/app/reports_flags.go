package app

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/app/flagset"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
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
	static      string
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
	fs.BoolVar(&f.admissionReports, "admissionReports", true, "include the results of admission in the reports; without this and --backgroundScan there are no reports")
	flagset.Accept(fs, "R")
}

// registerOwn registers the flags that only this controller has.
func (f *reportsFlags) registerOwn(fs *pflag.FlagSet) {
	fs.BoolVar(&f.scan, "backgroundScan", true, "evaluate existing objects")
	fs.BoolVar(&f.write, "policyReports", true, "write policy reports; when false, scans only produce events and metrics")
	f.switches = map[*family.Kind]*bool{}
	for _, k := range compile.Kinds {
		if s := k.Switch; s != nil {
			f.switches[k] = fs.Bool(s.Flag, s.On, s.Usage)
		}
	}
	fs.StringVar(&f.static, "staticPolicies", "", "folder with the policies that the API server loads from files, which scans evaluate; it is read at start. Empty for none")
	fs.BoolVar(&f.open, "openreportsEnabled", false, "write reports as openreports.io/v1alpha1")
	fs.IntVar(&f.workers, "backgroundScanWorkers", 2, "number of resources that are evaluated in parallel")
	fs.DurationVar(&f.interval, "backgroundScanInterval", time.Hour, "interval between evaluations of resources that have not changed")
	fs.BoolVar(&f.skipFilters, "skipResourceFilters", true, "scans also evaluate resources that the resourceFilters of the ConfigMap exclude from admission")
	fs.BoolVar(&f.checkKinds, "reportsCRDsSanityChecks", true, "exit at start when the CustomResourceDefinitions of reports are missing")
	fs.BoolVar(&f.aggregate, "aggregateReports", true, "include the results of admission and of background work in the reports")
	fs.IntVar(&f.takers, "aggregationWorkers", 10, "number of resources whose admission results are added to reports in parallel")
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
