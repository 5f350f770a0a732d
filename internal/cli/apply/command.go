package apply

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/clivalues"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/source"
)

// options are the flags of apply.
type options struct {
	families  *compile.Registry // the families of the policies; nil for those of Ephor
	policies  []string
	resources []string

	report           bool
	format           string
	table            bool
	detailed         bool
	output           string
	pipe             bool
	removeColor      bool
	auditWarn        bool
	warnExitCode     int
	warnNoPass       bool
	warningsAsErrors bool
	strict           bool
	continueOnFail   bool
	sarif            string // the path of the file

	exceptions                []string
	exceptionsWithinResources bool
	exceptionsWithinPolicies  bool
	generateExceptions        bool
	exceptionTTL              time.Duration
	request                   *Request // of ephor exceptions request; nil for apply

	targets     []string
	parameters  []string
	crds        []string
	cluster     clusterOptions
	registry    bool
	git         source.Git
	values      load.ValueFlags
	server      load.ServerFlag
	contextFile string
	payloads    load.PayloadFlags
}

// New returns the command `ephor apply` for policies of the given families; nil means those of Ephor.
func New(families *compile.Registry) *cobra.Command {
	o := &options{families: families}
	cmd := &cobra.Command{
		Use:   "apply POLICY... --resource FILE...",
		Short: "Evaluate policies on resources",
		Long: "Apply evaluates policies on resources and prints the rules that they violate.\n\n" +
			"Policies and resources are files, directories, globs, or - for standard input, with YAML documents, Lists, or JSON.\n" +
			"With --cluster the resources are the objects of a cluster that have the kinds that the policies name. The exit code is\n" +
			"1 when a resource violates a rule or when some input could not be read.",
		Example: "  ephor apply policies/ --resource manifests/\n" +
			"  kustomize build . | ephor apply policies/ -r - --table\n" +
			"  ephor apply policy.yaml -r pod.yaml --policy-report --output-format json\n" +
			"  ephor apply policies/ --cluster --namespace team-a --table",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.policies = args
			if err := o.check(cmd); err != nil {
				return err
			}
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	paths := terminal.Paths(&o.resources)
	f.VarP(paths, "resource", "r", "resources: files, directories, globs, or - for standard input (repeat it, or separate by commas)")
	f.Var(paths, "resources", "the same as --resource")
	f.BoolVarP(&o.report, "policy-report", "p", false, "print a report instead of text")
	f.StringVar(&o.sarif, "sarif", "", "also write the failures to this file in SARIF format, which code hosts show next to the changed lines")
	f.StringVar(&o.format, "output-format", "yaml", "format of the report: json or yaml")
	terminal.Choices(cmd, "output-format", "json", "yaml")
	f.BoolVarP(&o.table, "table", "t", false, "print a table of all results instead of text")
	f.BoolVar(&o.detailed, "detailed-results", false, "include messages in the table")
	f.StringVarP(&o.output, "output", "o", "", "file (.yaml, .yml) or directory for mutated and generated objects")
	f.BoolVarP(&o.pipe, "stdin", "i", false, "omit the banner, so that the output can be piped")
	f.BoolVar(&o.removeColor, "remove-color", false, "print without colours")
	f.BoolVar(&o.auditWarn, "audit-warn", false, "count failures of audit rules as warnings")
	f.IntVar(&o.warnExitCode, "warn-exit-code", 0, "exit code when there are warnings but no failures or errors")
	f.BoolVar(&o.warnNoPass, "warn-no-pass", false, "use the exit code of --warn-exit-code when nothing passed")
	f.BoolVar(&o.warningsAsErrors, "warnings-as-errors", false, "exit with 1 when the policies cause warnings")
	f.BoolVar(&o.strict, "strict", false, "exit with 1 when something was not checked, such as a rule for an unknown kind, or everything")
	f.BoolVar(&o.continueOnFail, "continue-on-fail", false, "continue when a resource cannot be evaluated (always the case)")
	o.addExceptionFlags(f)
	o.values.AddFlags(f)
	targets := terminal.Paths(&o.targets)
	f.Var(targets, "target-resource", "objects that rules for existing resources may change, in addition to the resources: files, directories, globs")
	f.Var(targets, "target-resources", "the same as --target-resource")
	parameters := terminal.Paths(&o.parameters)
	f.Var(parameters, "parameter-resource", "parameters of CEL rules, in addition to the resources: files, directories, globs")
	f.Var(parameters, "parameter-resources", "the same as --parameter-resource")
	o.cluster.addFlags(f)
	o.server.AddFlag(f, "that of the cluster with --cluster, or the newest")
	remote.AddRegistryFlag(f, &o.registry)
	crds := terminal.Paths(&o.crds)
	f.Var(crds, "crd-paths", "CustomResourceDefinitions, which define the scope of kinds: .yaml and .yml files")
	f.Var(crds, "crd-path", "the same as --crd-paths")
	f.StringVar(&o.contextFile, "context-file", "", "file of kind Context: objects and image data that functions of CEL policies can read")
	o.payloads.AddFlags(f)
	addGitFlags(f, &o.git)
	return cmd
}

// check reports invalid combinations of flags, in Kyverno's order and with its texts.
func (o *options) check(cmd *cobra.Command) error {
	if err := o.values.Check(cmd.Flags()); err != nil {
		return err
	}
	if o.format != "json" && o.format != "yaml" {
		return fmt.Errorf("invalid --output-format %q, expected json or yaml", o.format)
	}
	if format := strings.ToLower(o.output); slices.Contains([]string{"json", "yaml", "table", "junit", "sarif"}, format) {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: --output %s is a folder for changed objects (a report is --policy-report --output-format json, a table --table, and SARIF --sarif FILE)\n", o.output)
	}
	if name := terminal.After(cmd.Context(), "-p"); o.report && slices.Contains(o.policies, name) {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: -p prints a report (--policy-report) and has no value: %s is read as a policy, as names without a flag are (leave -p out: apply %s --resource FILE...)\n", name, name)
	}
	o.removeColor = o.removeColor || terminal.NoColor()
	switch {
	case len(o.policies) == 0:
		return errors.New("require policy\n(name files or folders with policies: apply POLICY... --resource FILE...)")
	case slices.Contains(o.policies, "-") && slices.Contains(o.resources, "-"):
		return errors.New("a stdin pipe can be used for either policies or resources, not both")
	case len(o.resources) > 0 && o.payloads.JSON():
		return errors.New("both resource and json files can not be used together, use one or the other")
	case len(o.resources) == 0 && !o.payloads.Any() && !o.cluster.use:
		return errors.New("resource file(s) or cluster required\n(name files or folders with --resource, or evaluate the objects of a cluster with --cluster)")
	}
	return o.cluster.check(cmd.Flags())
}

// run is walk D of the architecture: it loads, compiles, evaluates in parallel, and prints in the order of the input.
func (o *options) run(cmd *cobra.Command) error {
	trace := terminal.NewTrace(cmd)
	if o.output != "" {
		if err := prepareOutput(o.output); err != nil {
			return err
		}
	}
	values, err := o.values.Read()
	if err != nil {
		return err
	}
	stdin := terminal.Stdin(cmd.InOrStdin())
	o.git.Progress = terminal.ForDownloads(cmd)
	cluster, err := o.cluster.open(o.registry)
	if err != nil {
		return err
	}
	server, err := o.server.Version(cluster.Server())
	if err != nil {
		return err
	}
	set := load.PoliciesFrom(o.families, o.policies, source.Options{Stdin: stdin, Git: &o.git, Context: cmd.Context()}, server)
	trace.Done("read %d policies with %d rules, refused %d", len(set.Programs), set.Rules(), len(set.Refused))

	payloads, err := o.payloads.Read()
	if err != nil {
		return err
	}
	var known clivalues.Context
	if o.contextFile != "" {
		read, err := load.Context(o.contextFile)
		if err != nil {
			return err
		}
		known = *read
	}
	images, err := remote.Images(o.registry)
	if err != nil {
		return err
	}
	signatures, err := remote.Signatures()
	if err != nil {
		return err
	}
	inputs, mistakes, exceptions, err := o.inputs(cmd.Context(), set, cluster, stdin)
	if err != nil {
		return err
	}
	targets, targetDiags := source.Find(o.targets, source.Options{Context: cmd.Context()})
	parameters, parameterDiags := source.Find(o.parameters, source.Options{Context: cmd.Context()})
	defined, definitionDiags := load.Definitions(o.crds)
	mistakes = slices.Concat(mistakes, targetDiags, parameterDiags, definitionDiags)
	set.Programs = exceptions.Join(set.Programs, offline.Now())
	given := load.Given(payloads)
	if len(o.resources) > 0 || cluster != nil {
		given = append(given, policy.NoPayload)
	}
	mistakes.Add(load.PassedOver(set.Programs, given, nil)...)
	result := evaluateAll(cmd.Context(), evaluation{
		programs:    set.Programs,
		families:    o.families,
		inputs:      inputs,
		keepAll:     o.report || o.table || o.detailed,
		tellErrors:  !o.report && !o.detailed,
		findings:    o.sarif != "",
		keepChanges: o.output != "" || o.text(),
		showChanges: o.text(),
		entries:     report.Options{AuditWarn: o.auditWarn},
		progress:    terminal.NewProgress(cmd.ErrOrStderr(), "resources evaluated"),
		given:       values,
		targets:     targets,
		parameters:  parameters,
		definitions: defined,
		images:      images,
		signatures:  signatures,
		context:     known,
		payloads:    payloads,
		cluster:     cluster,
		query:       o.cluster.query(cluster, set.Programs, o.resources),
		timing:      o.cluster.timing(cmd.ErrOrStderr()),
	})
	if result.err != nil {
		return fmt.Errorf("failed to load resources (%w)", result.err)
	}
	trace.Done("evaluated %d resources", result.resources)

	diags := slices.Concat(o.values.Warnings, set.Diags, exceptions.Diags, mistakes, result.diags, exceptions.Unevaluated(result.exceptions))
	diags.Add(set.Causes(result.erring)...)
	diags.Add(o.checked(set, result).Unchecked(diags)...)
	terminal.PrintMistakes(cmd.ErrOrStderr(), diags)
	terminal.PrintNote(cmd.ErrOrStderr(), set.Passed)
	printUncompiled(cmd.ErrOrStderr(), set.Refused)
	text := cmd.OutOrStdout()
	if o.report || o.generateExceptions { // programs read standard output
		text = cmd.ErrOrStderr()
	}
	if err := o.printMissing(text, result.names); err != nil {
		return err
	}
	for range set.Refused {
		result.summary.Add(policy.StatusError) // a policy that is not applied counts as an error
	}
	if o.output != "" {
		if err := writeChanges(o.output, result.changes); err != nil {
			return err
		}
	}
	if o.sarif != "" {
		if err := writeFindings(o.sarif, diags, result.findings); err != nil {
			return err
		}
	}
	if err := o.print(cmd.OutOrStdout(), cmd.ErrOrStderr(), set, len(exceptions.Exceptions), result); err != nil {
		return err
	}
	if !o.pipe {
		printUnpatched(cmd.ErrOrStderr(), result.changes)
	}
	trace.Done("printed")
	if n := len(diags.Warnings()); n > 0 && o.warningsAsErrors {
		fmt.Fprintf(cmd.ErrOrStderr(), "Error: found %d warning(s) and --warnings-as-errors is set\n", n)
		return terminal.End(cmd, 1)
	}
	if diags.HasErrors() || terminal.Strict(cmd.ErrOrStderr(), o.strict, diags) != 0 {
		return terminal.End(cmd, 1)
	}
	return terminal.End(cmd, o.exitCode(text, result.summary))
}

// text reports whether the output is text, which shows changes and the errors of the rules that make them.
func (o *options) text() bool {
	return !(o.report || o.table || o.detailed || o.generateExceptions)
}

// checked counts what the run checked.
func (o *options) checked(set load.PolicySet, result evaluated) terminal.Checked {
	s := result.summary
	c := terminal.Checked{
		Policies: len(set.Programs) + len(set.Refused), Inputs: result.resources, Input: "resources",
		Results: s.Pass + s.Fail + s.Warn + s.Error + s.Skip + len(set.Refused),
	}
	if len(o.resources) == 0 && !o.cluster.use {
		c.Input = "documents"
	}
	return c
}

func (o *options) print(out, errs io.Writer, set load.PolicySet, exceptions int, result evaluated) error {
	w := terminal.Buffered(out)
	var err error
	switch {
	case o.report:
		reports := report.Merge(result.entries)
		if len(reports) == 0 {
			reports = []report.Report{report.Empty()}
		}
		write := report.WriteYAML
		if o.format == "json" {
			write = report.WriteJSON
		}
		err = write(w, reports, time.Now().Unix())
	case o.generateExceptions:
		var diags diag.List
		diags, err = o.writeExceptions(w, result.entries)
		terminal.PrintMistakes(errs, diags)
	case o.table || o.detailed:
		o.printTable(w, result.entries, terminal.IsTerminal(out))
	default:
		o.printText(w, set, exceptions, result)
	}
	return errors.Join(err, w.Flush())
}

// exitCode returns the exit code of the run. If warnings determine it, exitCode prints that.
func (o *options) exitCode(out io.Writer, s report.Summary) int {
	switch {
	case s.Fail > 0 || s.Error > 0:
		return 1
	case s.Warn > 0 && o.warnExitCode != 0:
		fmt.Fprintf(out, "exit as warnExitCode is %d", o.warnExitCode)
		return o.warnExitCode
	case o.warnNoPass && s.Pass == 0:
		fmt.Fprintln(out, "exit as no objects satisfied policy")
		return o.warnExitCode
	}
	return 0
}
