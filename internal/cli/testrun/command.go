package testrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cli/sarif"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/world"
)

// options are the flags of test.
type options struct {
	families         *compile.Registry // the families of the policies; nil for those of Ephor
	paths            []string
	fileName         string
	selector         string
	format           string
	failOnly         bool
	detailed         bool
	removeColor      bool
	requireTests     bool
	warningsAsErrors bool
	strict           bool
	sarif            string // the path of the file
	watch            bool
	registry         bool
	server           load.ServerFlag
	version          kubeversion.Minor
	images           world.Images // the client for --registry
	signatures       world.Signatures
	git              source.Git
	clones           []source.Clone // the clones of paths that are URLs
}

// New returns the command `ephor test` for policies of the given families; nil means those of Ephor.
func New(families *compile.Registry) *cobra.Command {
	o := &options{families: families}
	cmd := &cobra.Command{
		Use:   "test DIRECTORY...",
		Short: "Check that policies produce the results that tests expect",
		Long: "Test runs every kyverno-test.yaml below the directories: it evaluates the policies on the resources that the file names,\n" +
			"and compares the results with those that the file expects. A failure shows the expected and the actual result. The exit\n" +
			"code is 1 when a result differs.\n\n" +
			"If a rule does not apply to a resource, an expected result for it passes as `Excluded`, whatever the result, as in Kyverno.\n" +
			"A warning is printed; with --strict it fails. Where a policy that generates, deletes or verifies images in CEL does not match,\n" +
			"it fails as `Not found`.",
		Example: "  ephor test .\n" +
			"  ephor test policies/ --fail-only --strict\n" +
			"  ephor test policies/require-labels/ --watch\n" +
			"  ephor test . --test-case-selector policy=require-*,resource=web -o junit > report.xml",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.paths = args
			if !slices.Contains([]string{"", "json", "yaml", "markdown", "junit"}, o.format) {
				return errors.New("invalid format, expected (json, yaml, markdown, junit)")
			}
			var err error
			if o.version, err = o.server.Version(nil); err != nil {
				return err
			}
			if o.images, err = remote.Images(o.registry); err != nil {
				return err
			}
			if o.signatures, err = remote.Signatures(); err != nil {
				return err
			}
			remove, err := o.clone(cmd)
			if err != nil {
				return err
			}
			defer remove()
			if o.watch {
				return o.watchTests(cmd)
			}
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.fileName, "file-name", "f", "kyverno-test.yaml", "name of the test files, which are searched in all subdirectories")
	f.StringVarP(&o.selector, "test-case-selector", "t", "policy=*,rule=*,resource=*", "which results to check; wildcards are allowed")
	f.StringVarP(&o.format, "output-format", "o", "", "one document with all results on standard output, and everything else on standard error: json, yaml, markdown or junit")
	terminal.Choices(cmd, "output-format", "json", "yaml", "markdown", "junit")
	f.StringVar(&o.sarif, "sarif", "", "also write the failures to this file in SARIF format, which code hosts show next to the changed lines")
	f.BoolVar(&o.failOnly, "fail-only", false, "show only failures, in one table at the end")
	f.BoolVar(&o.detailed, "detailed-results", false, "include messages in the table")
	f.BoolVar(&o.removeColor, "remove-color", false, "print without colours")
	f.BoolVar(&o.requireTests, "require-tests", false, "fail when there are no tests")
	f.BoolVar(&o.warningsAsErrors, "warnings-as-errors", false, "exit with 1 when the files cause warnings")
	f.BoolVar(&o.strict, "strict", false, "fail when a rule that a result names did not apply, when a policy, rule or resource does not exist, or when something was not checked")
	f.BoolVar(&o.watch, "watch", false, "run again whenever a file changes, until interrupted")
	f.StringVarP(&o.git.Branch, "git-branch", "b", "", "branch of git repositories; the rest of a URL is then a directory. Without this flag the rest of a URL is the branch (default main)")
	remote.AddRegistryFlag(f, &o.registry)
	o.server.AddFlag(f, "the newest")
	return cmd
}

// clone replaces the URLs of git repositories by folders with clones. remove deletes the folders.
func (o *options) clone(cmd *cobra.Command) (remove func(), err error) {
	var folders []func()
	remove = func() {
		for _, f := range folders {
			f()
		}
	}
	o.git.Progress = terminal.ForDownloads(cmd)
	for i, p := range o.paths {
		if !source.IsURL(p) {
			continue
		}
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		repository, done, err := o.git.Clone(ctx, p)
		if err != nil {
			remove()
			return nil, err
		}
		for _, r := range repository.Removed {
			fmt.Fprintf(cmd.ErrOrStderr(), "Warning: %s of %s is passed over: %v\n", r.Name, p, r.Err)
		}
		folders = append(folders, done)
		o.paths[i] = repository.Folder
		o.clones = append(o.clones, repository)
	}
	return remove, nil
}

// finished is a test that has ended.
type finished struct {
	*testRun
	err error
}

// run runs all tests once. Tests run on all processors, and their results are printed in order. A test that cannot be
// run does not stop the others. With a format, standard output has one document with the rows of all tests, and nothing else.
func (o *options) run(cmd *cobra.Command) error {
	document := terminal.Buffered(cmd.OutOrStdout())
	defer document.Flush()
	out := document // the lines that report progress
	if o.format != "" {
		out = terminal.Buffered(cmd.ErrOrStderr())
		defer out.Flush()
	}
	filter, mistakes := parseTestFilter(o.selector)
	printFilterMistakes(out, mistakes)
	cases, broken, err := loadTests(o.paths, o.fileName, o.clones)
	if err != nil {
		return err
	}
	printTestMistakes(out, broken)
	printer := testPrinter{o.format, o.detailed, o.removeColor || terminal.NoColor() || o.format != "", terminal.IsTerminal(cmd.OutOrStdout())}
	if len(cases) == 0 && len(broken) == 0 {
		fmt.Fprintln(out, "\nNo test yamls available")
		if o.format != "" {
			if err := printer.print(document, nil); err != nil {
				return err
			}
		}
		if o.requireTests {
			return errors.New("no tests found")
		}
		return o.end(cmd, diag.List{noTests})
	}
	var rows, failed []testRow // rows is empty without a format
	var findings []sarif.Result
	var warnings diag.List
	passes, broke := 0, 0
	progress := terminal.NewProgress(cmd.ErrOrStderr(), "tests run")
	warnings.Add(withoutResults(cases)...)
	terminal.PrintMistakes(cmd.ErrOrStderr(), warnings)
	err = o.each(cmd.Context(), cases, filter, progress, func(f finished) error {
		progress.Pause()
		defer progress.Resume()
		out.Write(f.log.Bytes())
		if f.err != nil {
			broke++
			err := out.Flush()
			fmt.Fprintln(cmd.ErrOrStderr(), "Error:", f.err)
			return err
		}
		switch {
		case o.format != "":
			rows = append(rows, f.rows...)
		case !o.failOnly:
			fmt.Fprintln(out)
			if err := printer.print(out, f.rows); err != nil {
				return err
			}
			printDifferences(out, f.rows, printer.paint)
			fmt.Fprintln(out)
		}
		for _, r := range f.rows {
			if r.Result == rowFail {
				failed = append(failed, r)
				findings = append(findings, findingOf(f.testCase, r))
			} else {
				passes++
			}
		}
		warnings.Add(f.diags.Warnings()...)
		if err := out.Flush(); err != nil {
			return err
		}
		terminal.PrintMistakes(cmd.ErrOrStderr(), f.diags)
		for _, n := range f.notes {
			fmt.Fprintln(cmd.ErrOrStderr(), n)
		}
		return nil
	})
	progress.End()
	if err != nil {
		return err
	}
	if o.sarif != "" {
		for _, m := range broken {
			for _, d := range m.diags {
				findings = append(findings, sarif.Finding("test", d))
			}
		}
		if err := sarif.WriteFile(o.sarif, "", nil, findings); err != nil {
			return err
		}
	}
	if o.format != "" {
		if o.failOnly {
			rows = failed
		}
		if err := printer.print(document, rows); err != nil {
			return err
		}
	}
	if err := o.summary(out, printer, passes, failed); err != nil {
		return err
	}
	switch {
	case len(broken) > 0:
		return fmt.Errorf("found %d errors after loading tests", len(broken))
	case broke > 0:
		return fmt.Errorf("%d tests failed and %d could not be run", len(failed), broke)
	case len(failed) > 0:
		return fmt.Errorf("%d tests failed", len(failed))
	case passes == 0 && o.requireTests:
		return errors.New("no tests found")
	case len(warnings) > 0 && o.warningsAsErrors:
		return fmt.Errorf("found %d warning(s) and --warnings-as-errors is set", len(warnings))
	}
	if passes == 0 {
		return o.end(cmd, append(warnings, noExpectations))
	}
	return terminal.End(cmd, terminal.Strict(cmd.ErrOrStderr(), o.strict, warnings))
}

// withoutResults warns of Tests without expectations.
func withoutResults(cases []testCase) (out diag.List) {
	for _, c := range cases {
		if !c.deprecated && len(c.Results) == 0 {
			out.Add(c.warnings...)
			out.Add(diag.Diagnostic{
				Severity: diag.Warning, Code: diag.Unchecked, Pos: c.pos(""), Summary: "the Test has no expectations: nothing of it is checked", Hint: "add some under results",
			})
		}
	}
	return out
}

// The warnings about runs in which nothing was checked.
var (
	noTests        = terminal.NothingChecked("there is no test", "a test is a file with the name kyverno-test.yaml; --file-name sets another name")
	noExpectations = terminal.NothingChecked("no test has an expectation that --test-case-selector selects", "expectations are the list results of a Test")
)

// end ends a run in which nothing was checked. The last of the warnings says so; the others were printed.
func (o *options) end(cmd *cobra.Command, warnings diag.List) error {
	terminal.PrintMistakes(cmd.ErrOrStderr(), warnings[len(warnings)-1:])
	return terminal.End(cmd, terminal.Strict(cmd.ErrOrStderr(), o.strict, warnings))
}

// each runs the tests that have expectations left after the filter, and calls done for each in order. The first error ends it.
func (o *options) each(ctx context.Context, cases []testCase, filter testFilter, progress *terminal.Progress, done func(finished) error) error {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var runs []*testRun
	for i := range cases {
		c := &cases[i]
		if !c.deprecated {
			if c.Results = filter.apply(c.Results); len(c.Results) == 0 {
				continue
			}
		}
		runs = append(runs, &testRun{testCase: c, families: o.families, server: o.version, strict: o.strict, images: o.images, signatures: o.signatures, diags: c.warnings})
	}
	progress.Total(len(runs))
	results := make([]chan finished, len(runs))
	for i := range results {
		results[i] = make(chan finished, 1)
	}
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	go func() {
		for i, r := range runs {
			slots <- struct{}{}
			go func() {
				defer func() { <-slots }()
				if ctx.Err() != nil {
					results[i] <- finished{r, ctx.Err()}
					return
				}
				results[i] <- finished{r, r.run(ctx)}
			}()
		}
	}()
	for i := range results {
		f := <-results[i]
		results[i] = nil // releases the memory of the test
		runs[i] = nil
		progress.Add(1)
		if err := done(f); err != nil {
			return err
		}
	}
	return nil
}

// summary prints the last lines: the counts, and with --fail-only the failures.
func (o *options) summary(w io.Writer, printer testPrinter, passes int, failed []testRow) error {
	if !o.failOnly {
		fmt.Fprintf(w, "\nTest Summary: %d tests passed and %d tests failed\n\n", passes, len(failed))
		return nil
	}
	fmt.Fprintf(w, "\nTest Summary: %d out of %d tests failed\n", len(failed), passes+len(failed))
	if len(failed) == 0 || o.format != "" {
		fmt.Fprintln(w)
		return nil
	}
	fmt.Fprint(w, "\nAggregated Failed Test Cases : \n")
	if err := printer.print(w, failed); err != nil {
		return err
	}
	printDifferences(w, failed, printer.paint)
	fmt.Fprintln(w)
	return nil
}
