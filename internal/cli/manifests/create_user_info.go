package manifests

import (
	"github.com/spf13/cobra"
)

func newCreateUserInfo() *cobra.Command {
	var (
		output, user                string
		groups, roles, clusterRoles []string
	)
	cmd := &cobra.Command{
		Use:     "user-info",
		Short:   "Create a user info file: the user that makes the requests",
		Example: "  ephor create user-info -u alice@example.com -g developers -c admin -r shop:deployer",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := newObject("cli.kyverno.io/v1alpha1", "UserInfo", fields{{Key: "name", Value: "user-info"}})
			o = addField(o, "clusterRoles", clusterRoles)
			o = addField(o, "roles", roles)
			info := addField(fields{}, "username", user)
			return writeCreated(cmd, output, setField(o, "userInfo", addField(info, "groups", groups)))
		},
	}
	f := cmd.Flags()
	outputFlag(cmd, &output)
	f.StringVarP(&user, "username", "u", "", "name of the user")
	f.StringSliceVarP(&groups, "group", "g", nil, "group of the user (repeat it, or separate by commas)")
	f.StringSliceVarP(&roles, "role", "r", nil, "role of the user, namespace:name (repeat it, or separate by commas)")
	f.StringSliceVarP(&clusterRoles, "cluster-role", "c", nil, "cluster role of the user (repeat it, or separate by commas)")
	return cmd
}
