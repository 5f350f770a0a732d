package manifests

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newCreateException() *cobra.Command {
	var (
		output, namespace string
		background        bool
		rules             []string
		anyOf, allOf      []string
	)
	cmd := &cobra.Command{
		Use:   "exception NAME",
		Short: "Create a PolicyException",
		Long: "Exception prints a PolicyException: the rules are not evaluated for resources that match the filters. Rule names may\n" +
			"contain wildcards.",
		Example: "  ephor create exception legacy --policy-rules disallow-latest,require-tag,validate-tag \\\n" +
			"    --any kind=Pod,kind=Deployment,name=legacy-*,namespace=shop",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			exceptions, err := exceptionRules(rules)
			if err != nil {
				return err
			}
			var match fields
			for _, block := range []struct {
				name    string
				filters []string
			}{{"any", anyOf}, {"all", allOf}} {
				list, err := exceptionFilters(block.name, block.filters)
				if err != nil {
					return err
				}
				match = addField(match, block.name, list)
			}
			metadata := addField(fields{{Key: "name", Value: args[0]}}, "namespace", namespace)
			o := newObject("kyverno.io/v2", "PolicyException", metadata)
			spec := fields{{Key: "background", Value: background}}
			spec = setField(spec, "match", match)
			return writeCreated(cmd, output, setField(o, "spec", setField(spec, "exceptions", exceptions)))
		},
	}
	f := cmd.Flags()
	outputFlag(cmd, &output)
	f.StringVar(&namespace, "namespace", "default", "namespace of the exception")
	f.BoolVarP(&background, "background", "b", true, "apply the exception to scans, too")
	f.StringArrayVar(&rules, "policy-rules", nil, "rules to except, as policy,rule,… (repeat it)")
	f.StringArrayVar(&anyOf, "any", nil, "filter kind=…,name=…,namespace=…,operation=…, of which at least one must match (repeat it)")
	f.StringArrayVar(&allOf, "all", nil, "filter kind=…,name=…,namespace=…,operation=…, all of which must match (repeat it)")
	return cmd
}

func exceptionRules(flags []string) ([]fields, error) {
	out := []fields{}
	for _, text := range flags {
		parts, err := splitFlag("policy-rules", text, "policy,rule,…", 2, 0)
		if err != nil {
			return nil, err
		}
		out = append(out, fields{{Key: "policyName", Value: parts[0]}, {Key: "ruleNames", Value: parts[1:]}})
	}
	return out, nil
}

// exceptionFilters parses filters. Kyverno omits the level `resources`, and its own API server rejects the result.
func exceptionFilters(flag string, filters []string) ([]fields, error) {
	lists := []struct{ key, field string }{{"kind", "kinds"}, {"name", "names"}, {"namespace", "namespaces"}, {"operation", "operations"}}
	var out []fields
	for _, text := range filters {
		values := map[string][]string{}
	parts:
		for _, p := range strings.Split(text, ",") {
			k, v, ok := strings.Cut(p, "=")
			for _, l := range lists {
				if ok && v != "" && (k == l.key || k == l.field) {
					values[l.field] = append(values[l.field], v)
					continue parts
				}
			}
			return nil, fmt.Errorf("--%s %s: expected kind=…,name=…,namespace=…,operation=…", flag, text)
		}
		var resources fields
		for _, l := range lists {
			resources = addField(resources, l.field, values[l.field])
		}
		out = append(out, fields{{Key: "resources", Value: resources}})
	}
	return out, nil
}
