package manifests

import (
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/source"
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
			"policy,rule,resource[,namespace[,kind]]. With --output, the paths in the file are relative to its folder, as `ephor test` reads them.",
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
			from := func(paths ...string) []string {
				out := []string{}
				for _, p := range paths {
					out = append(out, fromFile(p, output))
				}
				return out
			}
			o := newObject("cli.kyverno.io/v1alpha1", "Test", fields{{Key: "name", Value: name}})
			o = setField(o, "policies", from(policies...))
			o = addField(o, "resources", from(resources...))
			o = addField(o, "variables", fromFile(values, output))
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

// fromFile returns the path as it is written in the test file, which is read relative to the folder of that file.
func fromFile(path, file string) string {
	if path == "" || file == "" || filepath.IsAbs(path) || source.IsArtifact(path) {
		return path
	}
	absolute, err := filepath.Abs(path)
	folder, unknown := filepath.Abs(filepath.Dir(file))
	relative, apart := filepath.Rel(folder, absolute)
	if errors.Join(err, unknown, apart) != nil {
		return path // on another drive
	}
	return filepath.ToSlash(relative)
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
