package manifests

import (
	"slices"

	"github.com/spf13/cobra"
)

func newCreateValues() *cobra.Command {
	var (
		output                              string
		global, selectors, rules, resources []string
	)
	cmd := &cobra.Command{
		Use:   "values",
		Short: "Create a values file with the values of variables for apply and test",
		Example: "  ephor create values -g request.mode=dev -n shop,env=production \\\n" +
			"    --rule limits,check-memory,ceiling.data.memory=1Gi --resource limits,web,request.operation=UPDATE",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			globals, err := assignments("global", global, true)
			if err != nil {
				return err
			}
			namespaces := []fields{}
			for _, text := range selectors {
				parts, err := splitFlag("ns-selector", text, "name,key=value,…", 2, 0)
				if err != nil {
					return err
				}
				labels, err := assignments("ns-selector", parts[1:], false)
				if err != nil {
					return err
				}
				namespaces = append(namespaces, fields{{Key: "name", Value: parts[0]}, {Key: "labels", Value: labels}})
			}
			p := policyValues{}
			if err := p.add("rule", rules); err != nil {
				return err
			}
			if err := p.add("resource", resources); err != nil {
				return err
			}
			o := newObject("cli.kyverno.io/v1alpha1", "Values", fields{{Key: "name", Value: "values"}})
			o = addField(o, "globalValues", globals)
			o = addField(o, "namespaceSelector", namespaces)
			return writeCreated(cmd, output, addField(o, "policies", p.fields()))
		},
	}
	f := cmd.Flags()
	outputFlag(cmd, &output)
	f.StringSliceVarP(&global, "global", "g", nil, "key=value that applies to all policies and resources (repeat it, or separate by commas)")
	f.StringArrayVarP(&selectors, "ns-selector", "n", nil, "labels of a namespace, as namespace,key=value,… (repeat it)")
	f.StringArrayVar(&rules, "rule", nil, "policy,rule,key=value,… (repeat it)")
	f.StringArrayVar(&resources, "resource", nil, "policy,resource,key=value,… (repeat it)")
	return cmd
}

// policyValues groups the values of several flags by policy, in the order in which the flags name the policies.
type policyValues struct {
	names []string
	rules map[string][]fields
	items map[string][]fields
}

func (p *policyValues) add(flag string, list []string) error {
	if p.rules == nil {
		p.rules, p.items = map[string][]fields{}, map[string][]fields{}
	}
	for _, text := range list {
		parts, err := splitFlag(flag, text, "policy,"+flag+",key=value,…", 3, 0)
		if err != nil {
			return err
		}
		values, err := assignments(flag, parts[2:], true)
		if err != nil {
			return err
		}
		name := parts[0]
		if !slices.Contains(p.names, name) {
			p.names = append(p.names, name)
		}
		entry := fields{{Key: "name", Value: parts[1]}, {Key: "values", Value: values}}
		if flag == "rule" {
			p.rules[name] = append(p.rules[name], entry)
		} else {
			p.items[name] = append(p.items[name], entry)
		}
	}
	return nil
}

func (p *policyValues) fields() []fields {
	var out []fields
	for _, name := range p.names {
		f := addField(fields{{Key: "name", Value: name}}, "rules", p.rules[name])
		out = append(out, addField(f, "resources", p.items[name]))
	}
	return out
}
