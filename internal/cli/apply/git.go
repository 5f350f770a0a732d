package apply

import (
	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/source"
)

func addGitFlags(f *pflag.FlagSet, g *source.Git) {
	f.StringVarP(&g.Branch, "git-branch", "b", "", "branch of git repositories; the rest of a URL is then a directory. Without this flag the rest of a URL is the branch (default main)")
	f.StringVar(&g.Username, "username", "", "user name for git repositories")
	f.StringVar(&g.Password, "password", "", "password or token for git repositories")
}
