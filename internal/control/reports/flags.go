package reports

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
)

// Flags configure which results are reported.
type Flags struct {
	rules   []string
	results []string
}

// reportedRules are the kinds of rules whose results are reported. The values are those of --enableReporting.
var reportedRules = []string{"validate", "mutate", "mutateExisting", "generate", "imageVerify"}

// Register adds the flags.
func (f *Flags) Register(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.rules, "enableReporting", reportedRules, "types of rules whose results are reported: "+strings.Join(reportedRules, ", "))
	fs.StringSliceVar(&f.results, "allowedResults", []string{"pass", "fail", "error", "warn", "skip"}, "results to report")
}

// Complete checks the flags.
func (f *Flags) Complete() error {
	var errs []error
	for _, r := range f.rules {
		if !slices.Contains(reportedRules, r) {
			errs = append(errs, fmt.Errorf("--enableReporting: %q is not one of %s", r, strings.Join(reportedRules, ", ")))
		}
	}
	_, err := f.Allowed()
	return errors.Join(append(errs, err)...)
}

// Reported reports whether results of this kind of rules are reported.
func (f *Flags) Reported(rule string) bool { return slices.Contains(f.rules, rule) }

// Allowed returns the statuses that are reported.
func (f *Flags) Allowed() (report.Allowed, error) {
	out := report.Allowed{}
	for _, name := range f.results {
		known := false
		for s := policy.StatusPass; s <= policy.StatusSkip; s++ {
			if s.String() == name {
				out[s], known = true, true
			}
		}
		if !known {
			return nil, fmt.Errorf("--allowedResults: %q is not one of pass, fail, warn, error, skip", name)
		}
	}
	return out, nil
}
