package app

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/flagset"
	"ephor.invalid/ephor/internal/lifecycle"
)

func newReportsCommand() *cobra.Command {
	f := &reportsFlags{}
	cmd := &cobra.Command{
		Use:   "reports",
		Short: "Evaluate policies on existing objects and write policy reports",
		Long: "Evaluates the policies with background: true on the resources in the cluster, and writes a PolicyReport for each\n" +
			"resource. Flags and environment variables have Kyverno's names; Kyverno flags that have no effect here are accepted\n" +
			"and logged.",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			return f.run(cmd.Context(), "reports", func(ctx context.Context, e env, b *base) error {
				go lifecycle.ReportsGarbage.Bound(ctx)
				return runReports(ctx, f, e, b)
			})
		},
	}
	f.register(cmd.Flags())
	cmd.SetFlagErrorFunc(flagset.Suggest)
	cmd.SetContext(context.Background())
	return cmd
}
