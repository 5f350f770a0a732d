package reports

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/autogen"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/value"
)

// newExceptionsImport returns the command exceptions import.
func newExceptionsImport() *cobra.Command {
	var (
		files     []string
		names     map[string]string
		namespace string
	)
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Write exceptions from those of other tools",
		Long: "Import reads the PolicyExceptions of Giant Swarm's operator (policy.giantswarm.io), and the exemptions in constraints and in the Config of\n" +
			"Gatekeeper: excludedNamespaces, and selectors that exclude by labels. It prints PolicyExceptions of kyverno.io. PolicyExceptions of\n" +
			"Kyverno need no import. A constraint is taken for the policy of its name; --policy names another one.",
		Example: "  ephor exceptions import -f giantswarm.yaml\n  ephor exceptions import -f constraints/ --policy ns-must-have-gk=require-labels -n exceptions",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return fmt.Errorf("name files with --filename")
			}
			objects, diags := source.Load(files, source.Options{Stdin: terminal.Stdin(cmd.InOrStdin()), Recursive: true, Numbers: source.Exact, Context: cmd.Context()})
			x := importer{names: names, namespace: namespace}
			for _, o := range objects {
				x.add(o)
			}
			diags.Add(x.diags...)
			terminal.PrintMistakes(cmd.ErrOrStderr(), diags)
			if err := x.write(cmd.OutOrStdout()); err != nil {
				return err
			}
			if diags.HasErrors() {
				return terminal.End(cmd, 1)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.VarP(terminal.Paths(&files), "filename", "f", "files, directories, or - for standard input (repeat it, or separate by commas)")
	f.StringToStringVar(&names, "policy", nil, "policies that take the place of constraints: CONSTRAINT=POLICY (repeat it)")
	f.StringVarP(&namespace, "namespace", "n", "", "namespace of the exceptions; by default that of the source, or default")
	return cmd
}

// importer collects exceptions from the objects of other tools.
type importer struct {
	names     map[string]string
	namespace string
	diags     diag.List
	out       []map[string]any
}

func (x *importer) add(o source.Object) {
	apiVersion, _ := o.Value["apiVersion"].(string)
	group, _, _ := strings.Cut(apiVersion, "/")
	metadata, _ := o.Value["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	spec, _ := o.Value["spec"].(map[string]any)
	switch {
	case group == "policy.giantswarm.io" && o.Kind() == "PolicyException":
		x.giantSwarm(o, name, namespace, spec)
	case group == "constraints.gatekeeper.sh":
		match, _ := spec["match"].(map[string]any)
		policyName := x.names[name]
		if policyName == "" {
			policyName = name
		}
		x.gatekeeper(o, name, []string{policyName}, match)
	case group == "config.gatekeeper.sh" && o.Kind() == "Config":
		list, _ := spec["match"].([]any)
		policies := slices.Sorted(maps.Values(x.names))
		for i, m := range list {
			match, _ := m.(map[string]any)
			if len(policies) == 0 {
				x.warn(o, "spec.match", "an exclusion of the Config is for all policies, and no policy is named", "name them with --policy")
				return
			}
			x.gatekeeper(o, fmt.Sprintf("gatekeeper-config-%d", i), policies, match)
		}
	default:
		x.warn(o, "kind", fmt.Sprintf("%s %s is no exception of Giant Swarm or Gatekeeper", apiVersion, o.Kind()), "it is passed over")
	}
}

func (x *importer) warn(o source.Object, path, text, hint string) {
	x.diags.Add(diag.Diagnostic{Severity: diag.Warning, Pos: o.Pos(path), Summary: text, Hint: hint})
}

// giantSwarm imports an exception of Giant Swarm's operator: targets by kind, names and namespaces, with all that controllers make.
func (x *importer) giantSwarm(o source.Object, name, namespace string, spec map[string]any) {
	targets, _ := spec["targets"].([]any)
	var filters []any
	workload := false
	for _, t := range targets {
		target, _ := t.(map[string]any)
		kind, _ := target["kind"].(string)
		resources := map[string]any{"kinds": []any{kind}}
		for _, field := range []string{"names", "namespaces"} {
			if list, _ := target[field].([]any); len(list) > 0 {
				resources[field] = list
			}
		}
		workload = workload || autogen.IsController(kind)
		filters = append(filters, map[string]any{"resources": resources})
	}
	if len(filters) == 0 {
		x.warn(o, "spec.targets", "the exception has no targets", "it is passed over")
		return
	}
	policies, _ := spec["policies"].([]any)
	var names []string
	for _, p := range policies {
		if s, ok := p.(string); ok {
			names = append(names, s)
		}
	}
	x.put(name, namespace, names, filters, workload)
}

// gatekeeper imports what a match excludes.
func (x *importer) gatekeeper(o source.Object, name string, policies []string, match map[string]any) {
	kinds := []any{"*"}
	var filters []any
	add := func(field string, v any) {
		filters = append(filters, map[string]any{"resources": map[string]any{"kinds": kinds, field: v}})
	}
	if list, _ := match["excludedNamespaces"].([]any); len(list) > 0 {
		add("namespaces", list)
	}
	for field, as := range map[string]string{"labelSelector": "selector", "namespaceSelector": "namespaceSelector"} {
		selector, _ := match[field].(map[string]any)
		expressions, _ := selector["matchExpressions"].([]any)
		for _, e := range expressions { // each of them excludes
			expression, _ := e.(map[string]any)
			opposite := map[string]any{"NotIn": "In", "DoesNotExist": "Exists"}[fmt.Sprint(expression["operator"])]
			if opposite == nil {
				x.warn(o, "spec.match", fmt.Sprintf("the selector %s of %s selects, and is no exemption", field, name), "write it into the policy")
				continue
			}
			expression = maps.Clone(expression)
			expression["operator"] = opposite
			add(as, map[string]any{"matchExpressions": []any{expression}})
		}
	}
	if len(filters) > 0 {
		slices.SortFunc(filters, func(a, b any) int { return strings.Compare(value.JSON(a), value.JSON(b)) })
		x.put(name, "", policies, filters, false)
	}
}

// put adds an exception from all rules of the policies.
func (x *importer) put(name, namespace string, policies []string, filters []any, workload bool) {
	var exceptions []any
	for _, p := range policies {
		exceptions = append(exceptions, map[string]any{"policyName": p, "ruleNames": []any{"*"}})
	}
	if x.namespace != "" {
		namespace = x.namespace
	}
	if namespace == "" {
		namespace = "default"
	}
	metadata := map[string]any{"name": name, "namespace": namespace}
	if workload {
		metadata["annotations"] = map[string]any{family.ExceptionCovers: family.CoversWorkload}
	}
	x.out = append(x.out, map[string]any{
		"apiVersion": "kyverno.io/v2", "kind": "PolicyException", "metadata": metadata,
		"spec": map[string]any{"exceptions": exceptions, "match": map[string]any{"any": filters}},
	})
}

func (x *importer) write(w io.Writer) error {
	for _, o := range x.out {
		text, err := yaml.JSONToYAML([]byte(value.JSON(o)))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}
