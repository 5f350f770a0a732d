package manifests

import (
	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/value"
)

func newCreateMetricsConfig() *cobra.Command {
	var (
		output, name, namespace string
		include, exclude        []string
	)
	cmd := &cobra.Command{
		Use:     "metrics-config",
		Short:   "Create the ConfigMap that selects the namespaces to include in metrics",
		Example: "  ephor create metrics-config --include shop --include billing --exclude kube-system",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list := func(names []string) []any {
				out := make([]any, len(names))
				for i, n := range names {
					out[i] = n
				}
				return out
			}
			namespaces := value.JSON(map[string]any{"include": list(include), "exclude": list(exclude)})
			o := newObject("v1", "ConfigMap", fields{{Key: "name", Value: name}, {Key: "namespace", Value: namespace}})
			return writeCreated(cmd, output, setField(o, "data", fields{{Key: "namespaces", Value: namespaces}}))
		},
	}
	f := cmd.Flags()
	outputFlag(cmd, &output)
	f.StringVarP(&name, "name", "n", "kyverno-metrics", "name of the ConfigMap")
	f.StringVar(&namespace, "namespace", "kyverno", "namespace of the ConfigMap")
	f.StringSliceVarP(&include, "include", "i", nil, "namespace to include in metrics; by default all (repeat it, or separate by commas)")
	f.StringSliceVarP(&exclude, "exclude", "e", nil, "namespace to exclude from metrics (repeat it, or separate by commas)")
	return cmd
}
