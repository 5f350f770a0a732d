package operate

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/unlock"
)

// settle is how long `unlock` checks that the configurations do not return.
const settle = 3 * time.Second

func NewUnlock() *cobra.Command {
	var kubeconfig, context string
	var lasting time.Duration
	var restore bool
	installation := &unlock.Installation{Now: time.Now, Watch: settle}
	cmd := &cobra.Command{
		Use:   "unlock",
		Short: "Remove the webhook configurations temporarily, when admission blocks the cluster",
		Long: "Unlock saves a copy of all webhook configurations of the installation in the Secret " + unlock.SecretName + "\n" +
			"and deletes them. An annotation of the main ConfigMap (" + unlock.Annotation + ") tells the controllers until\n" +
			"when not to create them again. Until then no webhook enforces a policy; policies of the API server that were generated from policies\n" +
			"stay in force. The command works in every state of the controllers.\n" +
			"With --restore it restores the configurations, even when no controller runs.",
		Example: "  ephor unlock --for 30m\n  ephor unlock --restore",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !restore && lasting <= 0 {
				return errors.New("--for must be positive")
			}
			if restore && cmd.Flags().Changed("for") {
				return errors.New("--for and --restore exclude each other")
			}
			config, err := remote.Config(kubeconfig, context)
			if err != nil {
				return err
			}
			if installation.Client, err = discovery.NewClient(config, client.Options{}); err != nil {
				return err
			}
			if restore {
				return lock(cmd, installation)
			}
			return open(cmd, installation, lasting)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&lasting, "for", time.Hour, "how long the configurations stay removed, such as 30m or 2h")
	f.BoolVar(&restore, "restore", false, "restore the configurations now")
	f.StringVarP(&installation.Namespace, "namespace", "n", "kyverno", "namespace of the installation")
	f.StringVar(&installation.ConfigMap, "configmap", "kyverno", "main ConfigMap of the installation")
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file")
	f.StringVar(&context, "context", "", "context of the kubeconfig to use")
	return cmd
}

func open(cmd *cobra.Command, installation *unlock.Installation, lasting time.Duration) error {
	report, err := installation.Open(cmd.Context(), lasting)
	out := cmd.OutOrStdout()
	for _, name := range report.Configurations {
		fmt.Fprintf(out, "deleted %s\n", name)
	}
	if lost := (*unlock.Lost)(nil); errors.As(err, &lost) {
		for _, o := range lost.Configurations {
			o.SetManagedFields(nil)
			text, yamlErr := yaml.Marshal(o)
			if yamlErr != nil {
				return errors.Join(err, yamlErr)
			}
			fmt.Fprintf(out, "---\n%s", text)
		}
	}
	if err != nil {
		return err
	}
	if len(report.Configurations) == 0 {
		fmt.Fprintln(out, "there were no webhook configurations")
	}
	fmt.Fprintf(out, "unlocked until %s: no webhook enforces a policy before then, or before `%s unlock --restore`\n",
		report.Until.Format(time.RFC3339), cmd.Root().DisplayName())
	if report.Made {
		fmt.Fprintf(cmd.ErrOrStderr(), "Warning: there was no ConfigMap %s/%s, and it was made; an installation that reads another one (--namespace, --configmap) is not unlocked\n",
			installation.Namespace, installation.ConfigMap)
	}
	return nil
}

func lock(cmd *cobra.Command, installation *unlock.Installation) error {
	report, err := installation.Close(cmd.Context())
	out := cmd.OutOrStdout()
	for _, name := range report.Configurations {
		fmt.Fprintf(out, "created %s\n", name)
	}
	if err != nil {
		return err
	}
	if report.CopyStays {
		fmt.Fprintf(out, "the Secret %s stays: the restored webhooks prevent its deletion\n", unlock.SecretName)
	}
	switch {
	case len(report.Configurations)+len(report.Present) == 0:
		fmt.Fprintln(out, "locked: there is no copy; a running controller creates the webhook configurations again")
	case len(report.Present) > 0:
		fmt.Fprintf(out, "locked: %s already existed\n", strings.Join(report.Present, ", "))
	default:
		fmt.Fprintln(out, "locked")
	}
	return nil
}
