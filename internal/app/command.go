package app

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/flagset"
	"ephor.invalid/ephor/internal/lifecycle"
)

// controllerName is the command above all controllers.
const controllerName = "controller"

// NewControllerCommand returns `controller`, whose subcommands are the long-running processes. programVersion is the version that they
// report.
func NewControllerCommand(programVersion string) *cobra.Command {
	version = programVersion
	cmd := &cobra.Command{
		Use:   controllerName,
		Short: "Run one of the controllers in a cluster",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAdmissionCommand(), newBackgroundCommand(), newCleanupCommand(), newReportsCommand(), newAllCommand())
	return cmd
}

func newAdmissionCommand() *cobra.Command {
	f := &admissionFlags{}
	cmd := &cobra.Command{
		Use:   "admission",
		Short: "Answer the API server's admission reviews",
		Long: "Answers admission reviews according to the policies in the cluster, and maintains certificates, webhook\n" +
			"configurations and the status of policies. Flags and environment variables have Kyverno's names; Kyverno flags that\n" +
			"have no effect here are accepted and logged.",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			return f.run(cmd.Context(), "admission", func(ctx context.Context, e env, b *base) error {
				go lifecycle.AdmissionGarbage.Bound(ctx)
				return runAdmission(ctx, f, e, b)
			})
		},
	}
	f.register(cmd.Flags())
	cmd.SetFlagErrorFunc(flagset.Suggest)
	cmd.SetContext(context.Background())
	return cmd
}

func newCleanupCommand() *cobra.Command {
	f := &cleanupFlags{}
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Delete objects on schedule, as cleanup policies and TTL labels say",
		Long: "Deletes the objects that cleanup policies and the label cleanup.kyverno.io/ttl select, answers admission reviews of\n" +
			"both and, with --deadManSeconds, makes webhooks fail open while no replica answers reviews. Flags and environment\n" +
			"variables have Kyverno's names; Kyverno flags that have no effect here are accepted and logged.",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			return f.run(cmd.Context(), "cleanup", func(ctx context.Context, e env, b *base) error { return runCleanup(ctx, f, e, b) })
		},
	}
	f.register(cmd.Flags())
	cmd.SetFlagErrorFunc(flagset.Suggest)
	cmd.SetContext(context.Background())
	return cmd
}

func newAllCommand() *cobra.Command {
	f := &allFlags{}
	cmd := &cobra.Command{
		Use:   "all",
		Short: "Run all controllers in one process, for small clusters and for evaluation",
		Long: "Runs the admission, background, reports and cleanup controllers in one process, with two HTTPS servers and one\n" +
			"port for metrics. The flags of the admission controller apply to all of them; the flags that only the other\n" +
			"controllers have exist, too.",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			return f.admission.run(cmd.Context(), "all", func(ctx context.Context, e env, b *base) error { return runAll(ctx, f, e, b) })
		},
	}
	f.register(cmd.Flags())
	cmd.SetFlagErrorFunc(flagset.Suggest)
	cmd.SetContext(context.Background())
	return cmd
}
