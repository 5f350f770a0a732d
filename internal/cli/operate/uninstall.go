package operate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/leftover"
)

func NewUninstall() *cobra.Command {
	var kubeconfig, context string
	var leave, yes, dry bool
	installation := &leftover.Installation{Now: time.Now}
	cmd := &cobra.Command{
		Use:   "uninstall --leave-policies",
		Short: "Remove the objects that only Ephor uses, after a return to Kyverno",
		Long: "Uninstall lists the objects that Ephor created and Kyverno does not use (webhook configurations, Secrets with keys, records, Leases,\n" +
			"notes on shared objects), asks for confirmation, and removes them. It keeps policies, exceptions, reports, UpdateRequests, definitions\n" +
			"and everything that a Helm release or a manifest installed. It refuses to run while a controller of Ephor runs, since the controller\n" +
			"would create the objects again.",
		Example: "  ephor uninstall --leave-policies\n  ephor uninstall --leave-policies --yes",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !leave {
				return errors.New("say --leave-policies: policies and everything that belongs to them stay, and this is the only way to uninstall; `helm uninstall` removes a release")
			}
			config, err := remote.Config(kubeconfig, context)
			if err != nil {
				return err
			}
			if installation.Client, err = discovery.NewClient(config, client.Options{}); err != nil {
				return err
			}
			items, err := installation.List(cmd.Context())
			if running := (*leftover.Running)(nil); errors.As(err, &running) && dry {
				fmt.Fprintf(cmd.ErrOrStderr(), "Warning: %v\n", running)
			} else if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if len(items) == 0 {
				fmt.Fprintln(out, "nothing of Ephor is left")
				return nil
			}
			for _, i := range items {
				fmt.Fprintf(out, "%s (%s)\n", terminal.Plain(i.String()), i.Why)
			}
			if dry {
				return nil
			}
			if !yes {
				agreed, err := confirm(cmd.InOrStdin(), cmd.ErrOrStderr(), "Remove "+terminal.Counted(len(items), "item", "items")+"?")
				if err != nil || !agreed {
					return errors.Join(err, errors.New("nothing was removed"))
				}
			}
			removed, err := installation.Remove(cmd.Context(), items)
			fmt.Fprintf(out, "removed %s\n", terminal.Counted(len(removed), "item", "items"))
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&leave, "leave-policies", false, "keep policies, exceptions, reports and definitions (required)")
	f.BoolVarP(&yes, "yes", "y", false, "remove without asking for confirmation")
	f.BoolVar(&dry, "dry-run", false, "only list what would be removed")
	f.StringVarP(&installation.Namespace, "namespace", "n", "kyverno", "namespace of the installation")
	f.StringVar(&installation.ConfigMap, "configmap", "kyverno", "main ConfigMap of the installation")
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file")
	f.StringVar(&context, "context", "", "context of the kubeconfig to use")
	return cmd
}

// confirm asks a yes-or-no question. Any answer but yes means no. Without an answer, such as in a script, it returns an error.
func confirm(in io.Reader, out io.Writer, question string) (bool, error) {
	fmt.Fprintf(out, "%s [y/N] ", question)
	answer, err := bufio.NewReader(io.LimitReader(in, 64)).ReadString('\n')
	if err != nil && answer == "" {
		fmt.Fprintln(out)
		return false, errors.New("there is no answer on standard input: --yes removes without asking")
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}
