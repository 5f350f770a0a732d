package app

import (
	"context"
	"os"

	"github.com/spf13/cobra"
)

func newReportsCommand() *cobra.Command {
	f := &reportsFlags{}
	cmd := &cobra.Command{
		Use:   "reports",
		Short: "Judge what exists already and write policy reports about it",
		Long: "Judges the resources in the cluster by the policies with background: true, and writes a PolicyReport for each. Flags\n" +
			"and environment have Kyverno's names; flags of Kyverno's that have no meaning here are accepted, with a line in\n" +
			"the log.",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			return f.run(cmd.Context(), "reports", func(ctx context.Context, e env, b *base) error {
				go boundGarbage(ctx)
				return runReports(ctx, f, e, b)
			})
		},
	}
	f.register(cmd.Flags())
	cmd.SetFlagErrorFunc(suggestFlag)
	cmd.SetContext(context.Background())
	return cmd
}
