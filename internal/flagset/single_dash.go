package flagset

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// NormalizeDashes returns args with a second dash before each flag that has one dash and belongs to a command below parent. Kyverno
// accepts both `-webhookTimeout=15` and `--webhookTimeout=15`, as all programs with Go's flag package do, so manifests contain both
// forms. Other words, and the arguments of all other commands, stay unchanged.
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
