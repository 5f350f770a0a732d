package flagset

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// knownFlag is a Kyverno flag that has no effect in a process of Ephor. The process accepts it, so that it starts with charts and
// manifests for Kyverno, and logs one line about it.
type knownFlag struct {
	name string
	// processes are the processes that accept the flag: A admission, B background, R reports, C cleanup, I the init container, whose
	// work every process does itself.
	processes string
	boolean   bool // the flag may be given without a value
	why       string
}

// The reasons why a flag has no effect.
const (
	whyKlog     = "Ephor's log has one level, --v, and one destination"
	whyInternal = "Ephor does not use the component that the flag tunes"
)

// knownFlags is the table of these flags. Remove a flag from it when the flag gets an effect.
var knownFlags = []knownFlag{
	{"add_dir_header", "ABRCI", true, whyKlog},
	{"alsologtostderr", "ABRCI", true, whyKlog},
	{"log_backtrace_at", "ABRCI", false, whyKlog},
	{"log_dir", "ABRCI", false, whyKlog},
	{"log_file", "ABRCI", false, whyKlog},
	{"log_file_max_size", "ABRCI", false, whyKlog},
	{"logtostderr", "ABRCI", true, whyKlog},
	{"one_output", "ABRCI", true, whyKlog},
	{"skip_headers", "ABRCI", true, whyKlog},
	{"skip_log_headers", "ABRCI", true, whyKlog},
	{"stderrthreshold", "ABRCI", false, whyKlog},
	{"vmodule", "ABRCI", false, whyKlog},

	{"exemplarFilter", "ABRC", false, "metrics carry no exemplars"},
	{"controllerRuntimeMetricsAddress", "AB", false, "Ephor has its own metrics"},

	{"crdWatcher", "ABRCI", true, "new kinds are always detected"},
	{"enableConfigMapCaching", "ABRC", true, "ConfigMaps of context entries are read on demand"},
	{"enableDeferredLoading", "ABRC", true, "context entries are always loaded when they are first used"},
	{"webhookRegistrationTimeout", "A", false, "webhooks are registered without waiting"},
	{"dumpPatches", "A", true, whyInternal},
	{"blockLegacyPolicyAPIs", "AC", true, "Ephor evaluates the kinds of kyverno.io and accepts changes of them"},
	{"cleanupServerHost", "ABRI", false, "only the cleanup controller listens there"},
	{"cleanupServerPort", "ABRI", false, "only the cleanup controller listens there"},
	{"webhookServerPort", "C", false, "the port is --cleanupServerPort"},
	{"autoDeleteWebhooks", "C", true, "webhook configurations are deleted with their owner"},

	{"enableCosignLogging", "AR", true, "Ephor verifies signatures with libraries that do not log"},

	{"maxBackgroundReports", "R", false, "results of scans are written into reports at once, without objects in between"},
	{"openreportsEnabled", "AI", true, "the reports controller writes reports"},
}

// Accept registers the flags that a process accepts without effect. process is one letter of knownFlag.processes. Call it after all other
// flags are registered, since it skips flags that are already registered.
func Accept(fs *pflag.FlagSet, process string) {
	for _, k := range knownFlags {
		if !strings.Contains(k.processes, process) || fs.Lookup(k.name) != nil {
			continue
		}
		fs.Var(&knownValue{flag: k}, k.name, "accepted without effect: "+k.why)
		_ = fs.MarkHidden(k.name)
		if k.boolean {
			fs.Lookup(k.name).NoOptDefVal = "true"
		}
	}
}

// knownValue is the value of a flag in the table. Nothing reads it.
type knownValue struct {
	flag knownFlag
	text string
}

func (v *knownValue) String() string { return v.text }
func (v *knownValue) Type() string   { return "string" }

// Set accepts every value, except a non-boolean one for a boolean flag.
func (v *knownValue) Set(text string) error {
	if v.flag.boolean && text != "" {
		if _, err := strconv.ParseBool(text); err != nil {
			return errors.New("it is true or false")
		}
	}
	v.text = text
	return nil
}

// WithoutEffect returns the flags without effect that the user gave, each with the reason.
func WithoutEffect(fs *pflag.FlagSet) []string {
	var given []string
	fs.Visit(func(f *pflag.Flag) {
		if v, ok := f.Value.(*knownValue); ok {
			given = append(given, "--"+f.Name+": "+v.flag.why)
		}
	})
	return given
}
