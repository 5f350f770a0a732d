package flagset

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// DoubleDashes returns args, the words of the command line behind the program's name, with two dashes in front of the flags
// that have one and belong to a command below parent: Kyverno takes `-webhookTimeout=15` like `--webhookTimeout=15`, as all programs with Go's
// own flags do, so that manifests have both. What is no flag of the command stays as it is, as do the words of all
// other commands.
func DoubleDashes(root, parent *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil || cmd.Parent() != parent {
		return args
	}
	out := slices.Clone(args)
	for i, word := range out {
		if word == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(word, "-"), "=")
		if strings.HasPrefix(word, "-") && len(name) > 1 && cmd.Flags().Lookup(name) != nil {
			out[i] = "-" + word
		}
	}
	return out
}
