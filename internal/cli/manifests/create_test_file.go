package manifests

import (
	"github.com/spf13/cobra"
)

// The name of this file ends in _file.go because Go would treat cmd_create_test.go as a test.

func newCreateTest() *cobra.Command {
	var (
		output, name, values string
		policies, resources  []string
		pass, fail, skip     []string
	)
	cmd := &cobra.Command{
		Use:   "test",
		Short: "Create a test file for `ephor test`",
		Long: "Test prints a Test: the policies, the resources and the results that are expected. Each expectation is\n" +
			"policy,rule,resource[,namespace[,kind]].",
		Example: "  ephor create test -p policy.yaml -r pods.yaml --pass require-labels,check-team,good,default,Pod \\\n" +
			"    --fail require-labels,check-team,bad,default,Pod",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			results := []fields{}
			for _, list := range []struct {
				result string
				flags  []string
			}{{"pass", pass}, {"fail", fail}, {"skip", skip}} {
				for _, text := range list.flags {
					r, err := expectation(list.result, text)
					if err != nil {
						return err
					}
					results = append(results, r)
				}
			}
			o := newObject("cli.kyverno.io/v1alpha1", "Test", fields{{Key: "name", Value: name}})
			o = setField(o, "policies", append([]string{}, policies...))
			o = addField(o, "resources", resources)
			o = addField(o, "variables", values)
			return writeCreated(cmd, output, setField(o, "results", results))
		},
	}
	f := cmd.Flags()
	outputFlag(cmd, &output)
	f.StringVarP(&name, "name", "n", "test-name", "name of the test")
	f.StringSliceVarP(&policies, "policy", "p", nil, "policy file (repeat it, or separate by commas)")
	f.StringSliceVarP(&resources, "resource", "r", nil, "resource file (repeat it, or separate by commas)")
	f.StringVarP(&values, "values-file", "f", "", "values file")
	f.StringArrayVar(&pass, "pass", nil, "policy,rule,resource[,namespace[,kind]] that passes (repeat it)")
	f.StringArrayVar(&fail, "fail", nil, "policy,rule,resource[,namespace[,kind]] that fails (repeat it)")
	f.StringArrayVar(&skip, "skip", nil, "policy,rule,resource[,namespace[,kind]] that is skipped (repeat it)")
	return cmd
}

func expectation(result, text string) (fields, error) {
	parts, err := splitFlag(result, text, "policy,rule,resource[,namespace[,kind]]", 3, 5)
	if err != nil {
		return nil, err
	}
	resource := parts[2]
	if len(parts) > 3 && parts[3] != "" {
		resource = parts[3] + "/" + resource
	}
	r := fields{{Key: "policy", Value: parts[0]}, {Key: "rule", Value: parts[1]}, {Key: "resources", Value: []string{resource}}}
	if len(parts) > 4 {
		r = addField(r, "kind", parts[4])
	}
	return setField(r, "result", result), nil
}
