package decisions

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/decision"
)

// NewWhy returns the command `ephor why`.
func NewWhy(families *compile.Registry) *cobra.Command {
	var from source
	exception := excepting{families: families}
	format := ""
	cmd := &cobra.Command{
		Use:   "why UID {-f FILE... | --server URL}",
		Short: "Explain the decision about a request",
		Long: "Why shows one recorded review with all results of policies, in the form of explain. UID is the UID of the review, which\n" +
			"`ephor decisions` lists and a refusal names. The exit code is 1 when no record has this UID.\n\n" +
			"With --exception it writes the smallest exceptions for a refused object, as `ephor exceptions request` does.",
		Example: "  ephor why 0d8c-4f -f decisions.jsonl\n" +
			"  ephor why 0d8c-4f -f decisions.jsonl --exception --reason 'the vendor runs as root' --owner team-shop --create",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "" && format != "json" {
				return fmt.Errorf("invalid output format %q, expected json", format)
			}
			if err := exception.check(); err != nil {
				return err
			}
			q := decision.Query{UID: args[0], Requests: exception.on}
			out := terminal.Buffered(cmd.OutOrStdout())
			found := 0
			var failed error
			mistakes, err := from.read(cmd.Context(), &q, terminal.Stdin(cmd.InOrStdin()), cmd.ErrOrStderr(), func(r *decision.Record) bool {
				if found++; exception.on {
					failed = exception.write(cmd, r)
				} else if format == "json" {
					failed = terminal.WriteJSON(out, r)
				} else {
					explain(terminal.LegibleWriter(out), r)
				}
				return failed == nil
			})
			switch {
			case failed != nil:
				return errors.Join(err, failed)
			case err != nil:
				return errors.Join(err, out.Flush())
			case found == 0:
				return fmt.Errorf("no record has the UID %s: it may not have been kept, since only a share of the reviews that passed is recorded", args[0])
			}
			if err := out.Flush(); err != nil {
				return err
			}
			if mistakes > 0 {
				return terminal.End(cmd, 1)
			}
			return nil
		},
	}
	from.addFlags(cmd.Flags())
	exception.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&format, "output", "o", "", "json to print the record as JSON instead of text")
	terminal.Choices(cmd, "output", "json")
	return cmd
}

// explain writes a record in a form for people.
func explain(w io.Writer, r *decision.Record) {
	words := r.Explain()
	fmt.Fprintf(w, "%s\n  %s\n", words.Summary, words.How)
	for _, x := range words.Rules {
		fmt.Fprintf(w, "%s\n", x.Title)
		for _, line := range x.Lines {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	if words.Message != "" {
		fmt.Fprintf(w, "  message: %s\n", words.Message)
	}
}
