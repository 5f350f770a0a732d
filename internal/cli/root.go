package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/cli/apply"
	"ephor.invalid/ephor/internal/cli/convert"
	"ephor.invalid/ephor/internal/cli/decisions"
	"ephor.invalid/ephor/internal/cli/explain"
	"ephor.invalid/ephor/internal/cli/findings"
	"ephor.invalid/ephor/internal/cli/impact"
	"ephor.invalid/ephor/internal/cli/jp"
	"ephor.invalid/ephor/internal/cli/manifests"
	"ephor.invalid/ephor/internal/cli/oci"
	"ephor.invalid/ephor/internal/cli/operate"
	"ephor.invalid/ephor/internal/cli/reports"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/cli/testrun"
	"ephor.invalid/ephor/internal/cli/verify"
	"ephor.invalid/ephor/internal/compile"
)

// NewRoot returns the command tree. extra are commands from other packages (ephor controller …).
func NewRoot(extra ...*cobra.Command) *cobra.Command { return NewRootFor(nil, extra...) }

// NewRootFor does what NewRoot does, but the commands apply, test and explain use policies of the given families instead of those of Ephor.
func NewRootFor(families *compile.Registry, extra ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:          "ephor",
		Short:        "Kubernetes policies: validate, mutate and report",
		Long:         "Ephor is a policy engine for Kubernetes. It speaks the Kyverno policy language: policies,\nexceptions, cleanup policies and tests work unchanged.",
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asked, _ := cmd.Flags().GetBool("version"); asked {
				_, err := fmt.Fprint(cmd.OutOrStdout(), versionText())
				return err
			}
			return cmd.Help()
		},
	}
	// The field Version of the library would link text/template, which makes the linker keep every method: the program grows by a fifth.
	root.Flags().Bool("version", false, "version for ephor")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(newHelp())
	root.PersistentFlags().IntP("v", "v", 0, "log steps and their duration to standard error (1 or higher)")
	terminal.AddLogFlags(root.PersistentFlags())
	root.AddCommand(commands(families)...)
	root.AddCommand(extra...)
	terminal.AddUsage(root)
	return root
}

// commands returns the commands of the command line, by name.
func commands(families *compile.Registry) []*cobra.Command {
	return []*cobra.Command{
		operate.NewAdopt(),
		apply.New(families),
		operate.NewCleanup(),
		newCompletion(),
		convert.New(),
		manifests.NewCreate(),
		decisions.New(families),
		newDocs(),
		reports.NewExceptions(apply.NewExceptionRequest(families), operate.NewRotateApprovals()),
		explain.New(families),
		manifests.NewFix(),
		impact.New(families),
		jp.New(),
		findings.New(version), // lint
		operate.NewMigrate(),
		oci.New(),
		operate.NewPreflight(),
		reports.NewReport(),
		reports.NewRollout(),
		newSchema(),
		testrun.New(families),
		operate.NewUninstall(),
		operate.NewUnlock(),
		verify.New(),
		newVersion(),
		decisions.NewWhy(families),
	}
}

// newHelp returns the command help. Unlike the one of the library, it fails for a command that does not exist.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = cobra.NoArgs(found, rest)
				found.SuggestionsMinimumDistance = 2 // as for unknown commands
				if near := found.SuggestionsFor(rest[0]); len(near) > 0 {
					err = fmt.Errorf("%w\nDid you mean %s?", err, strings.Join(near, " or "))
				}
			}
			if err != nil {
				return err
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// Main runs the command in args, whose first element is the name of the program, and returns the exit code. The program
// may have another name, such as kyverno or kubectl-kyverno; the usage texts then show that name.
func Main(args []string, root *cobra.Command) int {
	if len(args) > 0 {
		name := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
		root.Use = name
		if plugin, ok := strings.CutPrefix(name, "kubectl-"); ok {
			root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl " + plugin}
		}
		renameExamples(root)
		root.SetArgs(args[1:])
		root.SetContext(terminal.WithArguments(context.Background(), args[1:]))
	}
	return terminal.Code(root.Execute())
}

// renameExamples shows the examples with the name by which the program was called.
func renameExamples(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		c.Example = strings.ReplaceAll(c.Example, "ephor ", c.Root().DisplayName()+" ")
		renameExamples(c)
	}
}
