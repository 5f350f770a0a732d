package operate

import (
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/keystore"
)

// NewRotateApprovals returns the command `ephor exceptions rotate-key`.
func NewRotateApprovals() *cobra.Command {
	var kubeconfig, context, namespace string
	cmd := &cobra.Command{
		Use:   "rotate-key",
		Short: "Create a new key for approvals",
		Long: "Rotate-key creates a new key for approvals of exceptions, in the Secret " + keystore.Exceptions + ". Approvals made with an older key stay in\n" +
			"force, and the admission controller makes them anew with the new key within two minutes. The older keys stay in the Secret until an\n" +
			"administrator removes them; an approval whose key is gone has no effect.",
		Example: "  ephor exceptions rotate-key\n  ephor exceptions rotate-key --namespace policies",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := remote.Config(kubeconfig, context)
			if err != nil {
				return err
			}
			c, err := discovery.NewClient(config, client.Options{})
			if err != nil {
				return err
			}
			ring, err := (&keystore.Store{Client: c, Reader: c, Namespace: namespace, Name: keystore.Exceptions}).Rotate(cmd.Context())
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "new approvals are made with the key %s; the admission controller makes the older ones anew within two minutes, which still count\n", ring.Current().ID())
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVarP(&namespace, "namespace", "n", "kyverno", "namespace of the installation")
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file")
	f.StringVar(&context, "context", "", "context of the kubeconfig to use")
	return cmd
}
