package terminal

import (
	"github.com/spf13/pflag"
)

// AddLogFlags adds the flags of Kyverno's logging library, so that scripts that set them continue to work. They select
// the target and the format of logs; Ephor always logs to standard error, in one format.
func AddLogFlags(f *pflag.FlagSet) {
	for _, name := range []string{
		"add_dir_header", "alsologtostderr", "legacy_stderr_threshold_behavior", "logtostderr", "one_output", "skip_headers", "skip_log_headers",
	} {
		f.Bool(name, false, "accepted without effect")
		_ = f.MarkHidden(name)
	}
	// --kubeconfig is one of them: a library adds it to every command. Commands that connect to a cluster define their own.
	for _, name := range []string{"kubeconfig", "log_backtrace_at", "log_dir", "log_file", "log_file_max_size", "stderrthreshold", "vmodule"} {
		f.String(name, "", "accepted without effect")
		_ = f.MarkHidden(name)
	}
}
