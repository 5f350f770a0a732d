package convert

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/cli/impact"
	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/convert"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/policy"
	kindschema "ephor.invalid/ephor/internal/schema"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/wildcard"
)

// options are the flags of convert.
type options struct {
	policies  []string
	resources []string
	crds      []string
	samples   int
	seed      int64
	prove     bool
	static    string
	target    string
	tests     []string        // tests to convert along
	dir       string          // the folder for the converted tests
	records   impact.Recorded // requests of the past, on which both policies are compared
}

// New returns the command `ephor convert`.
func New() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "convert POLICY...",
		Short: "Convert classic policies to CEL policies",
		Long: "Convert converts each rule of a ClusterPolicy or Policy to a ValidatingPolicy, MutatingPolicy, GeneratingPolicy or\n" +
			"ImageValidatingPolicy, and a cleanup policy to a DeletingPolicy, and prints the result. To standard error it writes why a rule cannot be\n" +
			"converted, and where the new policy behaves differently. It then evaluates the classic rule and the new policy on resources that it\n" +
			"generates from the policy and on those of --resource, and lists the differences. With --decisions or --audit it also compares them on\n" +
			"recorded requests, with their requesters, updates and deletions. With --prove the exit code is 1 when a rule cannot be converted, when\n" +
			"results differ, or when the rule matched nothing.\n\n" + staticHelp,
		Example: "  ephor convert policy.yaml > policy-cel.yaml\n" +
			"  ephor convert policies/ --resource resources/ --prove\n" +
			"  ephor convert policies/ --prove --decisions sqlite:decisions.db --since 7d\n" +
			"  ephor convert policies/ --prove --audit audit.log\n" +
			"  ephor convert policies/ --static /etc/kubernetes/admission --prove",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.policies = args
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	f.VarP(terminal.Paths(&o.resources), "resource", "r", "resources for the comparison: files, directories, globs, or - for standard input (repeat it, or separate by commas)")
	f.Var(terminal.Paths(&o.crds), "crd-paths", "CustomResourceDefinitions of the kinds that the policies match: files or directories (repeat it, or separate by commas)")
	f.IntVar(&o.samples, "samples", 500, "number of resources to generate for the comparison of each rule")
	f.Int64Var(&o.seed, "seed", 1, "seed of the random numbers; the same seed generates the same resources")
	f.StringVar(&o.static, "static", "", "folder for the files from which an API server loads the policies; it has to be empty or absent")
	f.BoolVar(&o.prove, "prove", false, "exit with 1 when a rule cannot be converted, or when the results for a resource differ")
	f.Var(terminal.Paths(&o.tests), "tests", "tests to convert along, with the policies and exceptions that they name: files or folders with kyverno-test.yaml; the converted ones are run (repeat it, or separate by commas)")
	f.StringVar(&o.dir, "tests-to", "converted", "folder for the converted tests")
	f.StringVar(&o.target, "target", toEphor, "where the output has to run: ephor, kyverno, or native, for policies of the API server; what cannot run there is named")
	terminal.Choices(cmd, "target", toEphor, toKyverno, toNative)
	o.records.AddFlags(f)
	o.records.AddAuditFlag(f, "audit")
	return cmd
}

func (o *options) run(cmd *cobra.Command) error {
	switch {
	case len(o.policies) == 0 && len(o.tests) == 0:
		return errors.New("require policy: name files or directories")
	case !slices.Contains([]string{toEphor, toKyverno, toNative}, o.target):
		return fmt.Errorf("--target: %q is not one of ephor, kyverno, native", o.target)
	case o.samples < 0:
		return errors.New("invalid --samples: a number of resources cannot be negative")
	case o.static != "":
		return o.writeStatic(cmd)
	}
	if err := errors.Join(o.records.Check(), o.records.Open("", "", nil)); err != nil {
		return err
	}
	stdin := terminal.Stdin(cmd.InOrStdin())
	objects, diags := source.Load(o.policies, source.Options{Stdin: stdin, Recursive: true, Numbers: source.Exact})
	p, more := o.prover(stdin)
	diags.Add(more...)
	known := p.known
	out, report := terminal.Buffered(cmd.OutOrStdout()), terminal.LegibleWriter(cmd.ErrOrStderr())
	complete, written, policies := true, 0, 0
	print := func(objects []map[string]any, comments []string) error {
		for i, one := range objects {
			text, err := yaml.Marshal(one)
			if err != nil {
				return err
			}
			if written++; written > 1 {
				fmt.Fprintln(out, "---")
			}
			if i == 0 && len(comments) > 0 {
				fmt.Fprintln(out, strings.Join(comments, "\n"))
			}
			if _, err := out.Write(text); err != nil {
				return err
			}
		}
		return nil
	}
	var passed load.PassedBy
	diags = passed.Files(diags)
	all := conversions{}
	var exceptions []source.Object
	alone := map[string]bool{} // whether a policy (kind/name) is written for the API server alone
	for _, object := range objects {
		apiVersion, _ := object.Value["apiVersion"].(string)
		if convert.IsException(apiVersion, object.Kind()) {
			exceptions = append(exceptions, object) // they name policies that may come later
			continue
		}
		if !convert.Owns(apiVersion, object.Kind()) {
			if compile.Owns(apiVersion, object.Kind()) {
				passed.Converted()
			} else {
				diags.Add(passed.Other(nil, object)...)
			}
			continue
		}
		if _, found := compile.One(compile.Object{Value: object.Value, Pos: object.Pos}); found.HasErrors() {
			diags.Add(found...)
			continue
		}
		rules, found := convert.Policy(object.Value, schemas(known))
		diags.Add(found...)
		policies++
		converted, said := map[int][]map[string]any{}, commentsOf(object, len(rules))
		for i, rule := range rules {
			where := object.Kind() + " " + object.Name()
			if convert.HasRules(apiVersion, object.Kind()) {
				where += ", rule " + rule.Name
			}
			remarks(report, object.Pos, where+" cannot be converted", rule.Reasons)
			remarks(report, object.Pos, where, rule.Notes)
			if rule.Policy == nil {
				all.add(object, rule.Name, nil)
				complete = false
				continue
			}
			made := append([]map[string]any{rule.Policy}, rule.More...)
			if mistakes := mistakesOf(made); mistakes.HasErrors() { // nothing invalid is written
				remarks(report, object.Pos, where+" cannot be converted", invalid(mistakes))
				complete = false
				continue
			}
			remarks(report, object.Pos, where, all.add(object, rule.Name, made))
			written := o.output(report, where, made)
			for _, one := range made {
				alone[one["kind"].(string)+"/"+nameOf(one)] = written[0]["kind"] != made[0]["kind"]
			}
			if err := print(written, said.of(i)); err != nil {
				return err
			}
			converted[i] = made
			same, err := p.compare(cmd.Context(), report, where, oneRule(object.Value, i, rule.Controllers), rule)
			if err != nil {
				return err
			}
			complete = complete && same
		}
		if o.records.Given() && len(converted) > 0 {
			same, err := o.onRecords(cmd.Context(), stdin, report, object.Kind()+" "+object.Name(), object.Value, converted, rules)
			if err != nil {
				return err
			}
			complete = complete && same
		}
	}
	for _, x := range exceptions {
		made, said, found := convert.Exception(x.Value, schemas(known), all.refer, all.rulesOf)
		diags.Add(found...)
		remarks(report, x.Pos, labelOf(x, made), said)
		if made != nil && !o.exempts(report, x, made, alone) {
			made = nil
		}
		complete = complete && made != nil
		if made != nil {
			if err := print([]map[string]any{made}, commentsOf(x, 0).head); err != nil {
				return err
			}
		}
	}
	if len(o.tests) > 0 {
		t := &tests{options: o, schemas: schemas(known), report: report, mocked: map[string]bool{}}
		passed, err := t.all(cmd.Context())
		if err != nil {
			return err
		}
		complete = complete && passed
		diags.Add(t.diags...)
	}
	if len(o.policies) > 0 {
		diags.Add(terminal.Checked{Policies: policies}.Unchecked(diags)...)
		complete = complete && policies > 0
	}
	if err := out.Flush(); err != nil {
		return err
	}
	terminal.PrintNote(cmd.ErrOrStderr(), passed)
	terminal.PrintMistakes(cmd.ErrOrStderr(), diags)
	if diags.HasErrors() || o.prove && !complete {
		return terminal.End(cmd, 1)
	}
	return nil
}

// prover reads the resources and definitions for the comparison.
func (o *options) prover(stdin io.Reader) (prover, diag.List) {
	resources, diags := source.Load(o.resources, source.Options{Stdin: stdin, Numbers: source.Floats})
	definitions, more := source.Load(o.crds, source.Options{Recursive: true, Numbers: source.Exact})
	diags.Add(more...)
	var crds []map[string]any
	for _, d := range definitions {
		crds = append(crds, d.Value)
	}
	given := make([]map[string]any, len(resources))
	for i := range resources {
		source.Normalise(resources[i].Value)
		given[i] = resources[i].Value
	}
	return prover{given: given, known: kindschema.New(crds...), samples: o.samples, seed: o.seed}, diags
}

// labelOf returns the beginning of the remarks on an exception; made is nil if it cannot be converted.
func labelOf(x source.Object, made map[string]any) string {
	if made == nil {
		return label(x) + " cannot be converted"
	}
	return label(x)
}

// exempts reports whether a converted exception exempts from some policy as it is written, and says from which it does not: the API server knows no
// exceptions.
func (o *options) exempts(w io.Writer, x source.Object, made map[string]any, alone map[string]bool) bool {
	spec, _ := made["spec"].(map[string]any)
	refs, _ := spec["policyRefs"].([]any)
	var lost []string
	spec["policyRefs"] = slices.DeleteFunc(refs, func(r any) bool {
		ref, _ := r.(map[string]any)
		name := fmt.Sprint(ref["kind"], "/", ref["name"])
		if alone[name] {
			lost = append(lost, fmt.Sprint(ref["name"]))
		}
		return alone[name]
	})
	if len(lost) > 0 {
		remarks(w, x.Pos, label(x), []convert.Remark{{
			Path: "spec.exceptions", Text: "it does not exempt from " + strings.Join(lost, ", ") + ": the API server knows no exceptions",
			Hint: "add the negation of its conditions to spec.matchConditions of the policy",
		}})
	}
	return len(lost) < len(refs)
}

// invalid returns the reasons why a converted policy is not written.
func invalid(mistakes diag.List) (out []convert.Remark) {
	for _, d := range mistakes.Errors() {
		out = append(out, convert.Remark{Path: "spec", Text: "the converted policy would be invalid: " + d.String()})
	}
	return out
}

// remarks writes the remarks on a rule.
func remarks(w io.Writer, pos func(string) diag.Position, where string, all []convert.Remark) {
	for _, r := range all {
		fmt.Fprintf(w, "%s: %s: %s\n", pos(r.Path), where, r.Text)
		fmt.Fprintf(w, "  at %s\n", r.Path)
		if r.Hint != "" {
			fmt.Fprintf(w, "  hint: %s\n", r.Hint)
		}
	}
}

// mistakesOf returns the mistakes in policies.
func mistakesOf(all []map[string]any) (out diag.List) {
	for _, one := range all {
		_, mistakes := compiled(one)
		out.Add(mistakes...)
	}
	return out
}

// schemas returns the available information about kinds.
func schemas(known *kindschema.Kinds) convert.Schemas {
	return convert.Schemas{Resources: find(known), Types: known.TypeOf}
}

// find returns a function that finds the resources of known kinds. Of several versions of a group it takes v1, or else the last one.
func find(known *kindschema.Kinds) convert.Resources {
	return func(t policy.Target) []schema.GroupVersionResource {
		var out []schema.GroupVersionResource
		for _, f := range known.Find(t.Group, t.Version, t.Kind, "") {
			gvr := schema.GroupVersionResource{Group: f.Group, Version: f.Version, Resource: kinds.Plural(f.Kind)}
			i := slices.IndexFunc(out, func(o schema.GroupVersionResource) bool { return o.Group == gvr.Group })
			switch {
			case f.Group == "extensions" && t.Group == "*": // other groups now contain its kinds
			case i < 0:
				out = append(out, gvr)
			case out[i].Version != "v1":
				out[i] = gvr
			}
		}
		if len(out) == 0 && (t.Group == "*" || !wildcard.Has(t.Group)) && (t.Version == "*" || !wildcard.Has(t.Version)) && !wildcard.Has(t.Kind) {
			out = append(out, schema.GroupVersionResource{Group: t.Group, Version: t.Version, Resource: kinds.Plural(t.Kind)})
		}
		return out
	}
}
