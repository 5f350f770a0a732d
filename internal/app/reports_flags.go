package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/report"
)

// reportsFlags are the flags of the reports controller (control plane reference §1.5).
type reportsFlags struct {
	evaluatorFlags
	probeFlags
	scan        bool
	write       bool
	open        bool
	workers     int
	interval    time.Duration
	skipFilters bool
	checkKinds  bool
	rules       []string
	results     []string
	dashboard   dashboardFlags
}

// reportedRules are the kinds of rules whose results are reported, as --enableReporting names them.
var reportedRules = []string{"validate", "mutate", "mutateExisting", "generate", "imageVerify"}

func (f *reportsFlags) register(fs *pflag.FlagSet) {
	f.evaluatorFlags.register(fs)
	f.qps, f.burst = 300, 300
	fs.Lookup("clientRateLimitQPS").DefValue, fs.Lookup("clientRateLimitBurst").DefValue = "300", "300"
	f.probeFlags.register(fs)
	f.registerOwn(fs)
	registerKnown(fs, reportsLaterFlags, "R")
	registerKnown(fs, knownFlags, "R")
}

// registerOwn registers what no other controller has.
func (f *reportsFlags) registerOwn(fs *pflag.FlagSet) {
	fs.BoolVar(&f.scan, "backgroundScan", true, "judge what exists already")
	fs.BoolVar(&f.write, "policyReports", true, "write policy reports; without them, scans only give events and metrics")
	fs.BoolVar(&f.open, "openreportsEnabled", false, "write reports as openreports.io/v1alpha1")
	fs.IntVar(&f.workers, "backgroundScanWorkers", 2, "resources that are judged at once")
	fs.DurationVar(&f.interval, "backgroundScanInterval", time.Hour, "how often everything is judged again without news")
	fs.BoolVar(&f.skipFilters, "skipResourceFilters", true, "scans judge what the resourceFilters of the ConfigMap keep from admission, too")
	fs.BoolVar(&f.checkKinds, "reportsCRDsSanityChecks", true, "end at once where the kinds of reports are not defined")
	fs.StringSliceVar(&f.rules, "enableReporting", reportedRules, "kinds of rules whose results are reported: "+strings.Join(reportedRules, ", "))
	fs.StringSliceVar(&f.results, "allowedResults", []string{"pass", "fail", "error", "warn", "skip"}, "results that are reported")
	f.dashboard.register(fs)
}

// complete checks what cannot be seen flag by flag.
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
	for _, r := range f.rules {
		if !slices.Contains(reportedRules, r) {
			errs = append(errs, fmt.Errorf("--enableReporting: %q is none of %s", r, strings.Join(reportedRules, ", ")))
		}
	}
	_, err := f.allowed()
	return errors.Join(append(errs, err, f.dashboard.complete())...)
}

// allowed are the statuses that are reported.
func (f *reportsFlags) allowed() (report.Allowed, error) {
	out := report.Allowed{}
	for _, name := range f.results {
		known := false
		for s := policy.StatusPass; s <= policy.StatusSkip; s++ {
			if s.String() == name {
				out[s], known = true, true
			}
		}
		if !known {
			return nil, fmt.Errorf("--allowedResults: %q is none of pass, fail, warn, error, skip", name)
		}
	}
	return out, nil
}

// reportsLaterFlags are flags of the reports controller whose features are still to come in this process.
var reportsLaterFlags = []knownFlag{
	{"admissionReports", "R", true, whyScans},
	{"aggregateReports", "R", true, whyScans},
	{"aggregationWorkers", "R", false, whyScans},
	{"maxBackgroundReports", "R", false, "results of scans are written into reports at once, without objects in between"},
	{"validatingAdmissionPolicyReports", "R", true, whyNativeReports},
	{"mutatingAdmissionPolicyReports", "R", true, whyNativeReports},
}

// Why a flag of the reports controller has no meaning yet.
const (
	whyScans         = "reports hold the results of scans, not yet those of admission"
	whyNativeReports = "native admission policies are not reported yet"
)
