package decisions

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ephor-dev/ephor/internal/cli/terminal"
	"github.com/ephor-dev/ephor/internal/decision"
)

// NewWhy makes `ephor why`.
func NewWhy() *cobra.Command {
	var from source
	format := ""
	cmd := &cobra.Command{
		Use:   "why UID {-f FILE... | --server URL}",
		Short: "Say why a request was decided as it was",
		Long: "Why shows one recorded review with all that the policies said about it, in the words of explain. UID is that of the review,\n" +
			"which `ephor decisions` lists. The exit code is 1 when no record has it.",
		Example: "  ephor why 0d8c-4f -f decisions.jsonl",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "" && format != "json" {
				return fmt.Errorf("invalid output format %q, expected json", format)
			}
			q := decision.Query{UID: args[0]}
			out := terminal.Buffered(cmd.OutOrStdout())
			found := 0
			var failed error
			mistakes, err := from.read(cmd.Context(), &q, terminal.Stdin(cmd.InOrStdin()), cmd.ErrOrStderr(), func(r *decision.Record) bool {
				if found++; format == "json" {
					failed = terminal.WriteJSON(out, r)
				} else {
					explain(terminal.LegibleWriter(out), r)
				}
				return failed == nil
			})
			switch {
			case err != nil:
				return err
			case failed != nil:
				return failed
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
	cmd.Flags().StringVarP(&format, "output", "o", "", "json for the record instead of text")
	terminal.Choices(cmd, "output", "json")
	return cmd
}

// explain writes a record for people: what became of the request, then what each rule said.
func explain(w io.Writer, r *decision.Record) {
	answer := "admitted"
	if !r.Allowed {
		answer = "refused"
	}
	fmt.Fprintf(w, "%s %s by %s at %s: %s", r.Operation, resource(r), cmp.Or(r.User, "?"), r.Time.UTC().Format(time.RFC3339), answer)
	if r.Allowed && r.Verdict != decision.Passed {
		fmt.Fprintf(w, " (%s)", r.Verdict)
	}
	if r.DryRun {
		fmt.Fprint(w, ", dry run")
	}
	fmt.Fprintf(w, "\n  asked by a %s, answered in %s, policies %s\n", r.Webhook, r.Duration.Round(time.Microsecond), cmp.Or(r.Policies, "?"))
	for _, x := range r.Rules {
		name := "policy " + x.Policy
		if x.Rule != "" {
			name += ", rule " + x.Rule
		}
		fmt.Fprintf(w, "%s -> resource %s: %s\n  %s\n", name, resource(r), x.Status, x.Action)
		if x.Message != "" {
			fmt.Fprintf(w, "  message: %s\n", x.Message)
		}
		if x.Path != "" {
			fmt.Fprintf(w, "  path: %s\n", x.Path)
		}
		if len(x.Exceptions) > 0 {
			fmt.Fprintf(w, "  exempt by: %s\n", strings.Join(x.Exceptions, ", "))
		}
	}
	if len(r.Rules) == 0 && r.Message != "" {
		fmt.Fprintf(w, "  message: %s\n", r.Message)
	}
}
