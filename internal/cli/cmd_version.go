package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v2"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/value"
)

// The linker sets these. Values that the build did not set are shown as Kyverno's command line shows them.
var (
	version   = "(devel)"
	buildTime = "---"
	commit    = "---"
)

// Version returns the version of this program.
func Version() string { return version }

// versionText is the text of `ephor version` and `ephor --version`.
func versionText() string {
	return fmt.Sprintf("Version: %s\nTime: %s\nGit commit ID: %s\n", version, buildTime, commit)
}

func newVersion() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Example: "  ephor version\n  ephor version -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			switch format {
			case "":
				fmt.Fprint(out, versionText())
			case "json":
				fmt.Fprintln(out, value.JSON(map[string]any{"version": version, "time": buildTime, "gitCommitId": commit}))
			case "yaml":
				b, err := yaml.Marshal(yaml.MapSlice{{Key: "gitCommitId", Value: commit}, {Key: "time", Value: buildTime}, {Key: "version", Value: version}})
				if err != nil {
					return err
				}
				_, err = out.Write(b)
				return err
			default:
				return fmt.Errorf("invalid output format %q, expected json or yaml", format)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "", "json or yaml")
	terminal.Choices(cmd, "output", "json", "yaml")
	return cmd
}
