package manifests

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/cli/terminal"
)

// extensibleControllers are the controllers whose permissions a ClusterRole can extend.
var extensibleControllers = []string{"admission-controller", "background-controller", "reports-controller", "cleanup-controller"}

func newCreateClusterRole() *cobra.Command {
	var (
		output                               string
		groups, verbs, resources, controller []string
	)
	cmd := &cobra.Command{
		Use:   "cluster-role NAME",
		Short: "Create a ClusterRole that gives the controllers more permissions",
		Long: "Cluster-role prints a ClusterRole that is aggregated to the roles of the controllers. Policies that generate or mutate\n" +
			"resources need it for kinds that the controllers have no access to. Write core or \"\" for the core group.",
		Example: "  ephor create cluster-role quotas --api-groups core --resources resourcequotas,limitranges --verbs create,get,update",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			labels := fields{}
			for _, c := range controller {
				if !slices.Contains(extensibleControllers, c) {
					return fmt.Errorf("--controllers %s: expected one of %q", c, extensibleControllers)
				}
				labels = setField(labels, "rbac.kyverno.io/aggregate-to-"+c, "true")
			}
			for i, g := range groups {
				if g == "core" {
					groups[i] = ""
				}
			}
			if slices.Contains(verbs, "all") {
				verbs = []string{"create", "get", "update", "delete", "list", "watch"}
			}
			rule := fields{{Key: "apiGroups", Value: groups}, {Key: "resources", Value: resources}, {Key: "verbs", Value: verbs}}
			metadata := fields{{Key: "name", Value: "kyverno-" + args[0] + "-permission"}, {Key: "labels", Value: labels}}
			o := newObject("rbac.authorization.k8s.io/v1", "ClusterRole", metadata)
			return writeCreated(cmd, output, setField(o, "rules", []fields{rule}))
		},
	}
	f := cmd.Flags()
	outputFlag(cmd, &output)
	f.VarP(wordList{&groups}, "api-groups", "g", "API group, core for the core group (repeat it, or separate by commas)")
	f.Var(wordList{&resources}, "resources", "resource, such as configmaps (repeat it, or separate by commas)")
	f.Var(wordList{&verbs}, "verbs", "verb, such as get, or all (repeat it, or separate by commas)")
	f.StringSliceVar(&controller, "controllers", []string{"background-controller"}, "controller that gets the permissions (repeat it, or separate by commas)")
	for _, name := range []string{"api-groups", "resources", "verbs"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // a flag of that name was added above
		}
	}
	return cmd
}

// wordList is a flag that may be repeated or hold several words separated by commas. An empty word counts, since the
// core API group has an empty name.
type wordList struct{ to *[]string }

func (w wordList) String() string { return "" }

func (w wordList) Type() string { return "strings" }

func (w wordList) Set(s string) error {
	if s == "" {
		*w.to = append(*w.to, "")
		return nil
	}
	return terminal.Paths(w.to).Set(s)
}
