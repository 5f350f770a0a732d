package decisions

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/diag"
)

// options are the flags of decisions.
type options struct {
	from       source
	since      terminal.Span
	policies   []string
	namespaces []string
	users      []string
	kinds      []string
	verdicts   []string
	format     string
	limit      int
	follow     bool
}

// selected returns the query for the records that the flags select.
func (o *options) selected() (q decision.Query, err error) {
	q = decision.Query{Policies: o.policies, Namespaces: o.namespaces, Users: o.users, Kinds: o.kinds}
	for _, v := range o.verdicts {
		if !slices.Contains(names(), v) {
			return q, fmt.Errorf("--verdict: %q is not one of %s", v, strings.Join(names(), ", "))
		}
		q.Verdicts = append(q.Verdicts, decision.Verdict(v))
	}
	q.Since = o.since.Before(time.Now())
	return q, nil
}

// addFlags adds the flags that select records.
func (o *options) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(&o.since, "since", "only reviews within this time before now, such as 24h or 7d; by default all")
	f.StringSliceVar(&o.policies, "policy", nil, "only reviews in which these policies have a result; wildcards are allowed")
	f.StringSliceVarP(&o.namespaces, "namespace", "n", nil, "only reviews in these namespaces; wildcards are allowed")
	f.StringSliceVar(&o.users, "user", nil, "only reviews of requests by these users; wildcards are allowed")
	f.StringSliceVar(&o.kinds, "kind", nil, "only reviews of objects of these kinds; wildcards are allowed")
	f.StringSliceVar(&o.verdicts, "verdict", nil, "only reviews with one of these verdicts: "+strings.Join(names(), ", "))
	terminal.Choices(cmd, "verdict", names()...)
}

// New returns the command `ephor decisions` for policies of the given families; nil means those of Ephor.
func New(families *compile.Registry) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "decisions {-f FILE... | --server URL}",
		Short: "List recorded admission decisions",
		Long: "Decisions lists the reviews that the admission controller recorded (--decisions): the user, the request, the verdict,\n" +
			"and the policies that led to it. Without a selection it lists all records: in the order of the files, or the newest first\n" +
			"from a store. A table has at most --limit records.\n\n" +
			"Of the reviews with verdict passed only a share is recorded. The column SHARE shows it: a record with 0.01 stands for a hundred reviews.",
		Example: "  ephor decisions -f decisions.jsonl --verdict refused --since 7d\n" +
			"  ephor decisions -f /decisions/log.jsonl --follow --verdict refused\n" +
			"  ephor decisions --server https://127.0.0.1:8443 --certificate-authority ca.crt --follow\n" +
			"  ephor decisions -f sqlite:decisions.db --namespace shop --user jane -o json\n" +
			"  kubectl logs -n kyverno deploy/kyverno-admission-controller | ephor decisions -f - --policy require-team -o csv",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	o.from.addFlags(f)
	o.addFlags(cmd)
	f.StringVarP(&o.format, "output", "o", "table", "table, json (one record on each line) or csv")
	f.IntVar(&o.limit, "limit", 1000, "maximum number of records in a table")
	f.BoolVar(&o.follow, "follow", false, "keep printing records as they are added to the file, the store or the server, until interrupted")
	terminal.Choices(cmd, "output", "table", "json", "csv")
	cmd.AddCommand(newExport(families), newErase())
	return cmd
}

func names() []string {
	out := make([]string, len(decision.Verdicts))
	for i, v := range decision.Verdicts {
		out[i] = string(v)
	}
	return out
}

func (o *options) run(cmd *cobra.Command) error {
	q, err := o.selected()
	if err != nil {
		return err
	}
	if o.limit < 0 {
		return errors.New("--limit must not be negative")
	}
	out := terminal.Buffered(cmd.OutOrStdout())
	var w writer
	switch o.format {
	case "table":
		table := &tableWriter{to: tabwriter.NewWriter(out, 0, 0, 3, ' ', 0), limit: o.limit}
		if o.follow { // the output has no end, so the column widths are fixed
			table.to, table.limit = tabwriter.NewWriter(out, 12, 0, 3, ' ', 0), -1
		}
		w = table
	case "json":
		w = jsonWriter{json.NewEncoder(out)}
	case "csv":
		w = &csvWriter{to: csv.NewWriter(out)}
	default:
		return fmt.Errorf("--output: %q is not one of table, json, csv", o.format)
	}
	if err := w.begin(); err != nil {
		return err
	}
	var failed error
	listed := 0
	take := func(r *decision.Record) bool {
		listed++
		if failed = w.write(r); failed == nil && o.follow {
			failed = errors.Join(w.flush(), out.Flush())
		}
		return failed == nil
	}
	q.Requests = o.format == "json"
	mistakes := 0
	if o.follow {
		mistakes, err = o.from.follow(cmd.Context(), &q, cmd.ErrOrStderr(), take)
	} else {
		mistakes, err = o.from.read(cmd.Context(), &q, terminal.Stdin(cmd.InOrStdin()), cmd.ErrOrStderr(), take)
	}
	if err := errors.Join(err, failed, w.end(out), out.Flush()); err != nil {
		return err
	}
	if mistakes > 0 {
		return terminal.End(cmd, 1)
	}
	if listed == 0 && !o.follow {
		terminal.PrintMistakes(cmd.ErrOrStderr(), diag.List{terminal.NothingChecked("no record is selected",
			"without --since, --policy and the other selections all are; the admission controller writes records with --decisions")})
	}
	return nil
}

// writer writes records in one format.
type writer interface {
	begin() error
	write(*decision.Record) error
	flush() error // writes buffered records to the output
	end(io.Writer) error
}

var header = []string{"TIME", "VERDICT", "SHARE", "OPERATION", "RESOURCE", "USER", "POLICIES", "UID"}

// cells returns the cells of a record, in the columns of header.
func cells(r *decision.Record) []string {
	return []string{r.Time.UTC().Format(time.RFC3339), string(r.Verdict), fmt.Sprint(r.Share), r.Operation, r.Resource(), cmp.Or(r.User, "-"), cmp.Or(strings.Join(policies(r), ","), "-"), r.UID}
}

// policies returns the policies whose results determined the verdict. For a passed review it returns all policies.
func policies(r *decision.Record) (out []string) {
	for _, x := range r.Rules {
		if (r.Verdict == decision.Passed || x.Status != "pass") && !slices.Contains(out, x.Policy) {
			out = append(out, x.Policy)
		}
	}
	return out
}

type tableWriter struct {
	to          *tabwriter.Writer
	limit, more int
}

func (w *tableWriter) row(cells []string) error {
	for i := range cells {
		cells[i] = terminal.Plain(cells[i])
	}
	_, err := fmt.Fprintln(w.to, strings.Join(cells, "\t"))
	return err
}

func (w *tableWriter) begin() error { return w.row(slices.Clone(header)) }
func (w *tableWriter) write(r *decision.Record) error {
	if w.limit == 0 {
		w.more++
		return nil
	}
	if w.limit > 0 {
		w.limit--
	}
	return w.row(cells(r))
}
func (w *tableWriter) flush() error { return w.to.Flush() }
func (w *tableWriter) end(out io.Writer) error {
	if err := w.to.Flush(); err != nil || w.more == 0 {
		return err
	}
	_, err := fmt.Fprintf(out, "and %d more; --limit is how many are listed\n", w.more)
	return err
}

type jsonWriter struct{ *json.Encoder }

func (w jsonWriter) begin() error                   { w.SetEscapeHTML(false); return nil }
func (w jsonWriter) write(r *decision.Record) error { return w.Encode(r) }
func (jsonWriter) flush() error                     { return nil }
func (jsonWriter) end(io.Writer) error              { return nil }

type csvWriter struct{ to *csv.Writer }

func (w *csvWriter) begin() error { return w.to.Write(header) }
func (w *csvWriter) write(r *decision.Record) error {
	row := cells(r)
	for i, c := range row {
		row[i] = terminal.Plain(c)
		if c != "-" && strings.ContainsAny(c[:min(len(c), 1)], "=+-@\t\r") {
			row[i] = "'" + row[i] // otherwise a spreadsheet would run it as a formula
		}
	}
	return w.to.Write(row)
}
func (w *csvWriter) flush() error        { w.to.Flush(); return w.to.Error() }
func (w *csvWriter) end(io.Writer) error { w.to.Flush(); return w.to.Error() }
