package app

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ephor-dev/ephor/internal/strict"
)

// knownFlag is a flag of the policy language that has no meaning in a process of Ephor. It is accepted,
// so that charts and manifests written for Kyverno start, and named in one line of the log.
type knownFlag struct {
	name string
	// processes that accept it: A admission, B background, R reports, C cleanup, I the init container, whose work every process does
	// itself.
	processes string
	boolean   bool // may be given without a value
	why       string
}

// Why a flag has no meaning.
const (
	whyKlog     = "Ephor's log has one level, --v, and one destination"
	whyImages   = "signatures of images are not verified"
	whyRegistry = "only the admission controller asks registries"
	whyInternal = "Ephor is not built on what the flag tunes"
)

// knownFlags is the table. A flag that gets a meaning leaves it.
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
	{"controllerRuntimeMetricsAddress", "AB", false, "Ephor's own metrics hold what there is to know"},

	{"crdWatcher", "ABRCI", true, "new kinds are always seen"},
	{"enableConfigMapCaching", "ABRC", true, "ConfigMaps of context entries are read when they are asked for"},
	{"enableDeferredLoading", "ABRC", true, "context entries are always loaded when they are first used"},
	{"webhookRegistrationTimeout", "A", false, "webhooks are registered without waiting"},
	{"dumpPatches", "A", true, whyInternal},
	{"cleanupServerHost", "ABRI", false, "only the cleanup controller listens there"},
	{"cleanupServerPort", "ABRI", false, "only the cleanup controller listens there"},
	{"autoDeleteWebhooks", "C", true, "webhook configurations go away with their owner"},

	{"enableCosignLogging", "AR", true, whyImages},
	{"allowInsecureRegistry", "BR", true, whyRegistry},
	{"imagePullSecrets", "BR", false, whyRegistry},
	{"registryCredentialHelpers", "BR", false, whyRegistry},

	{"maxBackgroundReports", "R", false, "results of scans are written into reports at once, without objects in between"},
	{"openreportsEnabled", "AI", true, "the reports controller writes reports"},
}

// registerKnown registers the flags of a table that the process (one letter) accepts without effect. Call it after all other flags are
// registered.
func registerKnown(fs *pflag.FlagSet, table []knownFlag, process string) {
	for _, k := range table {
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

// knownValue is the value of a flag of the table. It is not read.
type knownValue struct {
	flag knownFlag
	text string
}

func (v *knownValue) String() string { return v.text }
func (v *knownValue) Type() string   { return "string" }

// Set accepts every value, except for a boolean flag whose value is no boolean.
func (v *knownValue) Set(text string) error {
	if v.flag.boolean && text != "" {
		if _, err := strconv.ParseBool(text); err != nil {
			return errors.New("it is true or false")
		}
	}
	v.text = text
	return nil
}

// givenKnown are the flags without effect that were given, each with the reason.
func givenKnown(fs *pflag.FlagSet) []string {
	var given []string
	fs.Visit(func(f *pflag.Flag) {
		if v, ok := f.Value.(*knownValue); ok {
			given = append(given, "--"+f.Name+": "+v.flag.why)
		}
	})
	return given
}

// logKnown names them in one line.
func logKnown(log *slog.Logger, given []string) {
	if len(given) > 0 {
		log.Info("flags without an effect here", "flags", strings.Join(given, "; "))
	}
}

// suggestFlag adds to the error for an unknown flag the flags that were probably meant.
func suggestFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	name := unknown.GetSpecifiedName()
	var near []string
	best := len(name)/3 + 1 // more than a third of it is another word
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, noEffect := f.Value.(*knownValue); f.Hidden && !noEffect {
			return
		}
		switch d := strict.Distance(strings.ToLower(name), strings.ToLower(f.Name)); {
		case d < best:
			near, best = []string{"--" + f.Name}, d
		case d == best:
			near = append(near, "--"+f.Name)
		}
	})
	if len(near) == 0 || len(near) > 3 {
		return fmt.Errorf("%w; `%s --help` lists the flags", err, cmd.CommandPath())
	}
	return fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
}
