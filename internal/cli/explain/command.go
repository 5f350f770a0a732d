package explain

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/clivalues"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/wildcard"
	"ephor.invalid/ephor/internal/world/fixed"
)

// options are the flags of explain.
type options struct {
	families   *compile.Registry // the families of the policies; nil for those of Ephor
	policies   []string
	resources  []string
	exceptions []string
	values     load.ValueFlags
	payloads   load.PayloadFlags
	context    string
	rule       string
	operation  string
	format     string
}

// New returns the command `ephor explain` for policies of the given families; nil means those of Ephor.
func New(families *compile.Registry) *cobra.Command {
	o := &options{families: families}
	cmd := &cobra.Command{
		Use:   "explain POLICY... --resource FILE...",
		Short: "Explain why a rule passes, fails, or does not apply",
		Long: "Explain evaluates policies on resources like apply, and prints for each rule which clauses matched, the value of each\n" +
			"variable, which condition or part of a pattern decided the result, and what would make the resource pass. The exit code\n" +
			"is 1 only when some input could not be read, or when no rule matches --rule.",
		Example: "  ephor explain policy.yaml -r pod.yaml\n" +
			"  ephor explain policies/ -r deployment.yaml --rule 'autogen-*' -o json\n" +
			"  ephor explain policy.yaml -r pod.yaml --operation DELETE -u user.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.policies = append(o.policies, args...)
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	f.VarP(terminal.Paths(&o.policies), "policy", "p", "more policies: files, directories, globs, or - for standard input (repeat it, or separate by commas)")
	f.VarP(terminal.Paths(&o.resources), "resource", "r", "resources: files, directories, globs, or - for standard input (repeat it, or separate by commas)")
	f.VarP(terminal.Paths(&o.exceptions), "exception", "e", "policy exceptions: files or directories (repeat it, or separate by commas)")
	f.StringVar(&o.rule, "rule", "*", "explain only rules with this name; wildcards are allowed")
	f.StringVar(&o.operation, "operation", "", "operation of the request: CREATE (the default), UPDATE, DELETE or CONNECT")
	f.StringVarP(&o.format, "output", "o", "", "json to print the facts as JSON instead of text")
	terminal.Choices(cmd, "operation", "CREATE", "UPDATE", "DELETE", "CONNECT")
	terminal.Choices(cmd, "output", "json")
	f.StringVar(&o.context, "context-file", "", "file of kind Context: objects and image data that functions of CEL policies can read")
	o.payloads.AddFlags(f)
	o.values.AddFlags(f)
	return cmd
}

func (o *options) run(cmd *cobra.Command) error {
	switch {
	case len(o.policies) == 0:
		return errors.New("require policy: name files or directories before the flags, or with --policy")
	case len(o.resources) == 0 && !o.payloads.Any():
		return errors.New("require resource: give it with --resource")
	case len(o.resources) > 0 && o.payloads.Any():
		return errors.New("resources and documents (--json, --http-payload, --envoy-payload) can not be used together, use one or the other")
	}
	if err := o.values.Check(cmd.Flags()); err != nil {
		return err
	}
	if o.format != "" && o.format != "json" {
		return fmt.Errorf("invalid output format %q, expected json", o.format)
	}
	switch policy.Operation(o.operation) {
	case "", policy.Create, policy.Update, policy.Delete, policy.Connect:
	default:
		return fmt.Errorf("invalid operation %q, must be one of CREATE, UPDATE, DELETE, CONNECT", o.operation)
	}
	set, err := o.values.Read()
	if err != nil {
		return err
	}
	stdin := terminal.Stdin(cmd.InOrStdin())
	located, diags := loadLocated(o.families, o.policies, stdin, o.payloads.Any())
	programs := make([]*policy.Program, len(located))
	for i := range located {
		programs[i] = located[i].program
	}
	exceptions := load.Exceptions(o.exceptions, stdin)
	programs = exceptions.Join(programs, offline.Now())
	diags.Add(o.values.Warnings...)
	diags.Add(exceptions.Diags...)
	payloads, err := o.payloads.Read()
	if err != nil {
		return err
	}
	known := &clivalues.Context{}
	if o.context != "" {
		if known, err = load.Context(o.context); err != nil {
			return err
		}
	}
	resources, moreDiags := source.Load(o.resources, source.Options{Stdin: stdin, Numbers: source.Floats})
	diags.Add(moreDiags...)

	objects := make([]map[string]any, len(resources)) // as in apply, calls to the API server find these objects
	for i := range resources {
		source.Normalise(resources[i].Value)
		diags.Add(resources[i].Misnamed()...)
		objects[i] = resources[i].Value
	}
	signatures, err := remote.Signatures()
	if err != nil {
		return err
	}
	objects = append(objects, set.Objects()...)
	e := offline.New(programs, fixed.New(fixed.Values{
		Now: offline.Now, NamespaceLabels: set.Namespaces(), EveryNamespace: true, Objects: func() ([]map[string]any, error) { return objects, nil },
		Images: known.Images, Signatures: signatures, HTTP: remote.HTTP(),
		ContextResources: func() ([]map[string]any, error) { return slices.Concat(known.Resources, objects), nil },
	}), set)
	var all []explanation
	var unevaluated load.Unevaluated
	on := func(e *offline.Evaluator, object map[string]any) error {
		for i, p := range programs {
			found, err := explain(cmd.Context(), e, located[i], p, object, policy.Operation(o.operation), &unevaluated)
			if err != nil {
				return err
			}
			for _, x := range found {
				if wildcard.Match(o.rule, x.Rule) {
					all = append(all, x)
				}
			}
		}
		return nil
	}
	for _, r := range resources {
		if err := on(e, r.Value); err != nil {
			return err
		}
	}
	for _, d := range payloads {
		before := len(all)
		if err := on(e.OfDocuments(d.Sort), d.Value); err != nil {
			return err
		}
		for i := range all[before:] {
			all[before+i].Resource = d.Path
		}
	}
	diags.Add(exceptions.Unevaluated(unevaluated)...)
	diags.Add(e.UnknownNamespaces()...)
	checked := terminal.Checked{Policies: len(programs), Inputs: len(resources) + len(payloads), Input: "resources", Results: 1} // "no match" is an answer, too
	diags.Add(checked.Unchecked(diags)...)
	terminal.PrintMistakes(cmd.ErrOrStderr(), diags)
	if err := o.printExplanations(cmd.OutOrStdout(), all); err != nil {
		return err
	}
	if diags.HasErrors() {
		return terminal.End(cmd, 1)
	}
	return o.missedRule(programs)
}

// missedRule returns an error if no policy has a rule of the requested name. Without the error, the empty output would look like an answer.
func (o *options) missedRule(programs []*policy.Program) error {
	var names []string
	for _, p := range programs {
		for _, r := range p.Rules {
			if wildcard.Match(o.rule, r.Name) {
				return nil
			}
			if !strings.HasPrefix(r.Name, "autogen-") {
				names = append(names, r.Name)
			}
		}
	}
	const shown = 10
	if len(names) > shown {
		names = append(names[:shown], fmt.Sprintf("and %d more", len(names)-shown))
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("no rule has the name %q; there are %s", o.rule, strings.Join(names, ", "))
}

func (o *options) printExplanations(out io.Writer, all []explanation) error {
	w := terminal.Buffered(out)
	if o.format == "json" {
		list := make([]any, len(all))
		for i := range all {
			list[i] = all[i].facts()
		}
		fmt.Fprintln(w, terminal.Indented(value.JSON(list)))
		return w.Flush()
	}
	for i := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		all[i].print(terminal.LegibleWriter(w))
	}
	return w.Flush()
}

// located is a policy and the file from which it was read.
type located struct {
	program *policy.Program
	object  source.Object
}

// loadLocated reads and compiles every policy in the paths, including those with mistakes, whose rules are explained as
// errors. A namespaced policy applies only to its own namespace, except for documents, which have no namespace.
func loadLocated(families *compile.Registry, paths []string, stdin io.Reader, documents bool) ([]located, diag.List) {
	objects, diags := source.Load(paths, source.Options{Stdin: stdin, Recursive: true, Numbers: source.Exact})
	var passed load.PassedBy // explain names the policies that it explains, so it does not report what it leaves out
	diags = passed.Files(diags)
	var out []located
	for _, o := range objects {
		apiVersion, _ := o.Value["apiVersion"].(string)
		if !families.Evaluates(apiVersion, o.Kind()) {
			diags.Add(passed.Other(families, o)...)
			continue
		}
		metadata, _ := o.Value["metadata"].(map[string]any)
		namespace, _ := metadata["namespace"].(string)
		program, found := families.With(compile.Object{Value: o.Value, Pos: o.Pos}, nil, family.Options{CommandLine: documents || namespace == ""})
		diags.Add(families.Review(compile.Object{Value: o.Value, Pos: o.Pos}, program, family.Permissions{Documents: true})...)
		diags.Add(found...)
		out = append(out, located{program, o})
	}
	return out, diags
}
