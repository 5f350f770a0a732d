package reports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/status"
)

// exceptionOptions are the flags of the commands about exceptions.
type exceptionOptions struct {
	from   reportSource
	within time.Duration
	format string
	now    func() time.Time
}

// NewExceptions returns the command exceptions, with subcommands of other packages.
func NewExceptions(others ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exceptions",
		Short: "Show the exceptions of a cluster, what they exempt, and when they end",
		Long: "Exceptions reads the PolicyExceptions of both groups and the policy reports, and shows who answers for an exception, when it ends,\n" +
			"and how many reported objects it exempts. With -f it reads files with exceptions and reports instead of the cluster.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		exceptionCommand("list", "List the exceptions", "List shows all exceptions, those that end first at the top.", cobra.NoArgs, listExceptions),
		exceptionCommand("show NAME", "Show one exception, with the objects that it exempts",
			"Show prints an exception, the rules that it names and the reported objects that it exempts. NAME is the name, or namespace/name.", cobra.ExactArgs(1), showException),
		exceptionCommand("stale", "List the exceptions that no object needs",
			"Stale lists the exceptions that exempt no reported object, or only objects that would pass without an exception. The latter is known\n"+
				"where the setting `exceptions` of the ConfigMap has `compare`, so that scans evaluate both.", cobra.NoArgs, staleExceptions),
		exceptionCommand("check", "Check that no exception has ended or ends soon",
			"Check lists the exceptions that have ended, that end soon, or that cannot be used because of a mistake. The exit code is 2 if there\n"+
				"is one, and 1 when something could not be read.", cobra.NoArgs, checkExceptions),
		newExceptionsImport(),
	)
	cmd.AddCommand(others...)
	return cmd
}

func exceptionCommand(use, short, long string, args cobra.PositionalArgs, run func(*cobra.Command, *exceptionOptions, []string, []*exceptionUse) (code int, err error)) *cobra.Command {
	o := &exceptionOptions{now: time.Now}
	name, _, _ := strings.Cut(use, " ")
	example := "  ephor exceptions " + use + "\n  ephor exceptions " + use + " -f exceptions.yaml,reports.yaml -o json"
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: args, Example: strings.ReplaceAll(example, "NAME", "legacy"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.format != "table" && o.format != "json" {
				return fmt.Errorf("--output: %q is not one of table, json", o.format)
			}
			if o.within < 0 {
				return errors.New("--within must not be negative")
			}
			uses, diags, err := o.read(cmd.Context(), terminal.Stdin(cmd.InOrStdin()))
			if err != nil {
				return err
			}
			if len(o.from.files) > 0 {
				diags.Add(terminal.Absent(len(uses), "exceptions", diags)...)
			} else if len(uses) == 0 && !diags.HasErrors() {
				diags.Add(terminal.NothingChecked("the cluster has no exceptions", "they are PolicyExceptions of kyverno.io and policies.kyverno.io"))
			}
			terminal.PrintMistakes(cmd.ErrOrStderr(), diags)
			code, err := run(cmd, o, args, uses)
			if err != nil {
				return err
			}
			if diags.HasErrors() {
				code = 1
			}
			if code != 0 {
				return terminal.End(cmd, code)
			}
			return nil
		},
	}
	f := cmd.Flags()
	o.from.addFlags(f)
	f.StringVarP(&o.format, "output", "o", "table", "table or json")
	terminal.Choices(cmd, "output", "table", "json")
	if name != "stale" {
		f.DurationVar(&o.within, "within", 14*24*time.Hour, "an exception that ends within this time ends soon")
	}
	return cmd
}

// exceptionUse is an exception with what the reports say of it.
type exceptionUse struct {
	*status.ExceptionSummary
	exception *policy.Exception
	results   []compliance.Result
}

// read reads exceptions and reports, and returns the exceptions in the order of their ends.
func (o *exceptionOptions) read(ctx context.Context, stdin io.Reader) (out []*exceptionUse, diags diag.List, err error) {
	var results []compliance.Result
	add := func(r compliance.Report) {
		for _, x := range r.Results {
			if len(x.Exceptions()) > 0 {
				results = append(results, x)
			}
		}
	}
	use := func(object source.Object) { out = append(out, o.useOf(object)) }
	if len(o.from.files) > 0 {
		objects, found := source.Load(o.from.files, source.Options{Stdin: stdin, Recursive: true, Numbers: source.Exact, Context: ctx})
		diags.Add(found...)
		for _, object := range objects {
			apiVersion, _ := object.Value["apiVersion"].(string)
			switch {
			case compile.OwnsException(apiVersion, object.Kind()):
				use(object)
			case compliance.IsReport(object.Value):
				addReport(object, add, &diags)
			default:
				diags.Add(passedOver(object, "an exception or a report"))
			}
		}
	} else {
		c, err := remote.Open(o.from.kubeconfig, o.from.context, false)
		if err != nil {
			return nil, nil, fmt.Errorf("failed to reach the cluster (%w)", err)
		}
		diags.Add(c.Exceptions(ctx, "", use)...)
		found, err := o.from.readCluster(ctx, c, add)
		if err != nil {
			return nil, diags, err
		}
		diags.Add(found...)
	}
	for _, u := range out {
		exempt := compliance.Exempt{Name: u.Name, From: u.exception.From, Keep: true}
		for _, r := range results {
			exempt.Add(r)
		}
		u.results = exempt.Results
		u.Objects, u.Needed, u.Unneeded = exempt.Count()
	}
	slices.SortStableFunc(out, func(a, b *exceptionUse) int { return status.CompareEnds(a.ExceptionSummary, b.ExceptionSummary) })
	return out, diags, nil
}

// useOf returns an exception without what reports say.
func (o *exceptionOptions) useOf(object source.Object) *exceptionUse {
	summary, e := status.Summarize(compile.Object{Value: object.Value, Pos: object.Pos}, o.within, o.now())
	return &exceptionUse{ExceptionSummary: summary, exception: e}
}

func (o *exceptionOptions) write(w io.Writer, uses []*exceptionUse) error {
	if o.format == "json" {
		if uses == nil {
			uses = []*exceptionUse{}
		}
		return terminal.WriteJSON(w, uses)
	}
	rows := [][]string{{"EXCEPTION", "POLICIES", "OWNER", "ENDS", "STATE", "OBJECTS", "NEEDED", "LAST USE", "PER DAY"}}
	for _, u := range uses {
		needed := "-"
		if u.Needed+u.Unneeded > 0 {
			needed = strconv.Itoa(u.Needed)
		}
		rows = append(rows, []string{u.Key(), strings.Join(u.Policies, ","), cmp.Or(u.Owner, "-"), cmp.Or(u.Ends, "never"), u.State, strconv.Itoa(u.Objects), needed, cmp.Or(u.Last, "-"), u.perDay()})
	}
	return columns(w, rows)
}

// perDay returns the mean number of uses per day as text.
func (u *exceptionUse) perDay() string {
	if u.PerDay == nil {
		return "-"
	}
	return strconv.FormatFloat(*u.PerDay, 'f', 1, 64)
}

func listExceptions(cmd *cobra.Command, o *exceptionOptions, _ []string, uses []*exceptionUse) (int, error) {
	return 0, o.write(cmd.OutOrStdout(), uses)
}

func showException(cmd *cobra.Command, o *exceptionOptions, args []string, uses []*exceptionUse) (int, error) {
	uses = slices.DeleteFunc(uses, func(u *exceptionUse) bool { return u.Key() != args[0] && u.Name != args[0] })
	if len(uses) == 0 {
		return 0, fmt.Errorf("there is no exception %s", args[0])
	}
	w := cmd.OutOrStdout()
	if o.format == "json" {
		return 0, o.write(w, uses)
	}
	for i, u := range uses {
		if i > 0 {
			fmt.Fprintln(w)
		}
		rows := [][]string{{"Exception:", u.Key() + " (" + u.Group + ")"}, {"State:", u.State}}
		for _, x := range [][2]string{{"Mistake:", u.Mistake}, {"Reason:", u.Reason}, {"Owner:", u.Owner}, {"Ends:", cmp.Or(u.Ends, "never")}} {
			if x[1] != "" {
				rows = append(rows, x[:])
			}
		}
		for _, r := range u.exception.Rules {
			rows = append(rows, []string{"Exempts from:", strings.TrimSpace(r.Kind + " " + r.Policy + ": " + strings.Join(r.Names, ", "))})
		}
		if u.Last != "" {
			rows = append(rows, []string{"Used:", u.Last + ", " + u.perDay() + " requests per day"})
			for _, r := range u.Rules {
				rows = append(rows, []string{"", r})
			}
		}
		rows = append(rows, []string{"Objects:", strconv.Itoa(u.Objects)})
		for _, r := range u.results {
			rows = append(rows, []string{"", r.Resource.String() + " " + r.Policy + "/" + r.Rule + " " + string(r.Result)})
		}
		if err := columns(w, rows); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func staleExceptions(cmd *cobra.Command, o *exceptionOptions, _ []string, uses []*exceptionUse) (int, error) {
	return 0, o.write(cmd.OutOrStdout(), slices.DeleteFunc(uses, func(u *exceptionUse) bool {
		return !u.Stale(o.now())
	}))
}

func checkExceptions(cmd *cobra.Command, o *exceptionOptions, _ []string, uses []*exceptionUse) (int, error) {
	uses = slices.DeleteFunc(uses, func(u *exceptionUse) bool { return u.State == status.ExceptionInForce })
	if err := o.write(cmd.OutOrStdout(), uses); err != nil || len(uses) == 0 {
		return 0, err
	}
	return noExit, nil
}
