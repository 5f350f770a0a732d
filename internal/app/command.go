package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// NewControllerCommand returns `controller`, whose subcommands are the long-running processes. They say of themselves
// that they are of programVersion.
func NewControllerCommand(programVersion string) *cobra.Command {
	version = programVersion
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run one of the controllers in a cluster",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAdmissionCommand())
	return cmd
}

func newAdmissionCommand() *cobra.Command {
	f := &admissionFlags{}
	cmd := &cobra.Command{
		Use:   "admission",
		Short: "Answer the API server's admission reviews",
		Long: "Answers admission reviews by the policies in the cluster, and keeps certificates, webhook configurations and\n" +
			"the policies' status. Flags and environment have Kyverno's names; flags of Kyverno's\n" +
			"that have no meaning here are accepted, with a line in the log.",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return runAdmission(ctx, f, environment(os.LookupEnv))
		},
	}
	f.register(cmd.Flags())
	cmd.SetFlagErrorFunc(suggestFlag)
	cmd.SetContext(context.Background())
	return cmd
}
