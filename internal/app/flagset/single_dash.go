package flagset

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// NormalizeDashes returns args, the arguments of the command line, with two dashes before each flag that has one and belongs to a command
// below parent. Kyverno accepts `-webhookTimeout=15` like `--webhookTimeout=15`, as all programs with Go's flag package do, so manifests
// contain both. Other words, and those of all other commands, stay unchanged.
func NormalizeDashes(root, parent *cobra.Command, args []string) []string {
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
