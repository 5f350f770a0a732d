package terminal

import (
	"github.com/spf13/pflag"
)

// AddLogFlags adds the flags of Kyverno's logging library, so that scripts that set them go on. They say where logs go
// and what they look like; here there is one place, standard error, and one form.
func AddLogFlags(f *pflag.FlagSet) {
	for _, name := range []string{
		"add_dir_header", "alsologtostderr", "legacy_stderr_threshold_behavior", "logtostderr", "one_output", "skip_headers", "skip_log_headers",
	} {
		f.Bool(name, false, "accepted without effect")
		_ = f.MarkHidden(name)
	}
	// --kubeconfig is one of them: a library adds it to every command, and those that ask a cluster have their own.
	for _, name := range []string{"kubeconfig", "log_backtrace_at", "log_dir", "log_file", "log_file_max_size", "stderrthreshold", "vmodule"} {
		f.String(name, "", "accepted without effect")
		_ = f.MarkHidden(name)
	}
}
