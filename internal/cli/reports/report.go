package reports

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compliance"
)

// noExit is the exit code of a negative answer: the threshold of `report` is reached, or Enforce is not safe according to
// `rollout`. Exit code 1 means that there is no answer.
const noExit = 2

// reportOptions are the flags of report.
type reportOptions struct {
	from       reportSource
	filter     compliance.Filter
	results    []string
	failOn     []string
	format     string
	list       bool
	limit      int
	thresholds compliance.Threshold
}

func NewReport() *cobra.Command {
	o := &reportOptions{}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Summarize the policy reports of a cluster or of files",
		Long: "Report counts the results in policy reports by policy, by namespace and by severity. It reads the PolicyReports and\n" +
			"ClusterPolicyReports of the cluster, and the Reports and ClusterReports of openreports.io if the cluster has them; with -f\n" +
			"it reads files instead. Compliance is the share of evaluated results that pass; skipped results do not count.\n\n" +
			"The exit code is 2 when a result matches --fail-on, 1 when some report could not be read (the others are still counted\n" +
			"and shown), and otherwise 0.",
		Example: "  ephor report\n" +
			"  ephor report -n shop --list\n" +
			"  ephor report --policy 'require-*' --severity critical,high -o json\n" +
			"  ephor report --fail-on high,error -o html > compliance.html\n" +
			"  kubectl get polr,cpolr -A -o json | ephor report -f - -o csv",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	o.from.addFlags(f)
	f.VarP(terminal.Paths(&o.filter.Namespaces), "namespace", "n", "only results about resources in these namespaces; wildcards are allowed (repeat it, or separate by commas)")
	f.VarP(terminal.Paths(&o.filter.Policies), "policy", "p", "only these policies (namespace/name for a Policy); wildcards are allowed")
	f.Var(terminal.Paths(&o.filter.Kinds), "kind", "only resources of these kinds; wildcards are allowed")
	f.Var(terminal.Paths(&o.filter.Severities), "severity", "only these severities: critical, high, medium, low, info, or none")
	f.Var(terminal.Paths(&o.results), "result", "only these results: fail, error, warn, skip, pass")
	f.Var(terminal.Paths(&o.filter.Sources), "source", "only reports of these engines, such as kyverno; wildcards are allowed")
	f.Var(terminal.Paths(&o.failOn), "fail-on", "exit with 2 when there is a result of this kind: fail, error, warn …, a severity (a failure of that or a higher severity), or RESULT:SEVERITY")
	f.BoolVarP(&o.list, "list", "l", false, "also list individual results: those that do not pass, or those that --result selects")
	f.IntVar(&o.limit, "limit", 1000, "maximum number of individual results that are listed, also in HTML")
	f.StringVarP(&o.format, "output", "o", "table", "table, json, csv, or html (one self-contained file)")
	terminal.Choices(cmd, "output", "table", "json", "csv", "html")
	terminal.Choices(cmd, "severity", "critical", "high", "medium", "low", "info", "none")
	terminal.Choices(cmd, "result", "fail", "error", "warn", "skip", "pass")
	return cmd
}

// reportFormats maps the values of --output to their writers.
var reportFormats = map[string]func(w io.Writer, s compliance.Summary, list bool) error{
	"table": reportTable, "json": reportJSON, "csv": reportCSV, "html": reportHTML,
}

func (o *reportOptions) run(cmd *cobra.Command) error {
	write, err := o.check()
	if err != nil {
		return err
	}
	keep := 0
	if o.list || o.format == "html" {
		keep = o.limit
	}
	c := compliance.New(compliance.Options{Filter: o.filter, Keep: keep})
	o.from.namespaces = o.filter.Namespaces
	diags, err := o.from.read(cmd.Context(), terminal.Stdin(cmd.InOrStdin()), c.Add)
	if err != nil {
		return err
	}
	s := c.Summary(nil)
	if len(o.from.files) > 0 {
		diags.Add(terminal.Absent(s.Reports, "reports", diags)...)
	} else if s.Reports == 0 && !diags.HasErrors() {
		diags.Add(terminal.NothingChecked("there are no reports", "does the reports controller run?"))
	}
	terminal.PrintMistakes(cmd.ErrOrStderr(), diags)
	if !o.list && o.format != "html" {
		s.Omitted = 0 // single results were not requested
	}
	out := terminal.Buffered(cmd.OutOrStdout())
	if err := write(out, s, o.list); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if diags.HasErrors() {
		return terminal.End(cmd, 1)
	}
	if reached := o.thresholds.Reached(s); len(reached) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "Error: --fail-on is reached: %s\n", strings.Join(reached, ", "))
		return terminal.End(cmd, noExit)
	}
	return nil
}

// check checks the flags, and returns the function that writes the summary.
func (o *reportOptions) check() (func(io.Writer, compliance.Summary, bool) error, error) {
	write := reportFormats[o.format]
	if write == nil {
		return nil, fmt.Errorf("--output: %q is not one of table, json, csv, html", o.format)
	}
	if o.limit < 0 {
		return nil, errors.New("--limit must not be negative")
	}
	for _, s := range o.filter.Severities {
		if s != compliance.NoSeverity && !slices.Contains(compliance.Severities, s) {
			return nil, fmt.Errorf("--severity: %q is not one of critical, high, medium, low, info, none", s)
		}
	}
	for _, r := range o.results {
		if !slices.Contains(compliance.Statuses, compliance.Status(r)) {
			return nil, fmt.Errorf("--result: %q is not one of fail, error, warn, skip, pass", r)
		}
		o.filter.Results = append(o.filter.Results, compliance.Status(r))
	}
	var err error
	if o.thresholds, err = compliance.ParseThreshold(o.failOn); err != nil {
		return nil, fmt.Errorf("--fail-on: %w", err)
	}
	return write, nil
}
