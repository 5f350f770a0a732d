package cli

import (
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ephor-dev/ephor/internal/cli/terminal"
	"github.com/ephor-dev/ephor/internal/source"
)

func addGitFlags(f *pflag.FlagSet, g *source.Git) {
	f.StringVarP(&g.Branch, "git-branch", "b", "", "branch of git repositories; the rest of a URL is then a folder, and otherwise the branch (main)")
	f.StringVar(&g.Username, "username", "", "user name for git repositories")
	f.StringVar(&g.Password, "password", "", "password or token for git repositories")
}

// progressOf is where the progress of long downloads is shown: standard error, if it is a terminal.
func progressOf(cmd *cobra.Command) io.Writer {
	if w := cmd.ErrOrStderr(); terminal.IsTerminal(w) {
		return w
	}
	return nil
}
