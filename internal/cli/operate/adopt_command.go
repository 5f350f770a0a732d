package operate

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cli/terminal"
)

func NewAdopt() *cobra.Command {
	var kubeconfig, context, namespace string
	var mark, all, rotate bool
	cmd := &cobra.Command{
		Use:   "adopt [KIND/NAME | KIND/NAMESPACE/NAME]...",
		Short: "List and mark objects that a generate rule created according to their labels",
		Long: "Adopt lists the objects that a generate rule created according to their labels (generate.kyverno.io/*), but that lack a valid\n" +
			"mark of the background controller (annotation ephor.dev/generated). The controller does not change or delete such objects.\n" +
			"With --mark, the command marks the named objects, or all of them with --all: the administrator confirms that the labels are\n" +
			"true. The policy, the rule and the trigger must exist. The controller itself adopts the objects whose origin it can prove.",
		Example: "  ephor adopt\n  ephor adopt --mark NetworkPolicy/team-a/default-deny\n  ephor adopt --rotate-key",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case rotate && (mark || all || len(args) > 0):
				return errors.New("--rotate-key cannot be combined with --mark, --all or objects")
			case mark && all == (len(args) > 0):
				return errors.New("--mark needs the objects to mark, such as ConfigMap/team-a/settings, or --all")
			case !mark && len(args) > 0:
				return errors.New("objects can be named only with --mark")
			}
			var named []objectName
			for _, a := range args {
				n, err := parseObjectName(a)
				if err != nil {
					return err
				}
				named = append(named, n)
			}
			config, err := remote.Config(kubeconfig, context)
			if err != nil {
				return err
			}
			a, err := newAdoption(config, namespace, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if rotate {
				id, err := a.rotate(cmd.Context())
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "new marks are made with the key %s; the background controller makes the older ones anew within the hour, which still count\n", id)
				}
				return err
			}
			if err := a.load(cmd.Context(), mark); err != nil {
				return err
			}
			objects, err := a.list(cmd.Context())
			if err != nil {
				return err
			}
			if mark {
				return a.markAll(cmd.Context(), cmd.OutOrStdout(), objects, named)
			}
			return printLabelled(cmd.OutOrStdout(), objects, all)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&mark, "mark", false, "mark the named objects, or all listed objects with --all")
	f.BoolVar(&all, "all", false, "also list objects that are already marked; with --mark: mark all objects that are not")
	f.BoolVar(&rotate, "rotate-key", false, "create a new key for marks; marks made with older keys remain valid until they are renewed")
	f.StringVarP(&namespace, "namespace", "n", "kyverno", "namespace of the installation")
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file")
	f.StringVar(&context, "context", "", "context of the kubeconfig to use")
	return cmd
}

// objectName identifies an object on the command line.
type objectName struct{ kind, namespace, name string }

func parseObjectName(s string) (objectName, error) {
	parts := strings.Split(s, "/")
	for _, p := range parts {
		if p == "" {
			parts = nil
		}
	}
	switch len(parts) {
	case 2:
		return objectName{kind: parts[0], name: parts[1]}, nil
	case 3:
		return objectName{parts[0], parts[1], parts[2]}, nil
	}
	return objectName{}, fmt.Errorf("%q is not of the form KIND/NAME or KIND/NAMESPACE/NAME", s)
}

// printLabelled prints a table of the objects without a valid mark, or of all objects.
func printLabelled(out io.Writer, objects []labelled, all bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	n := 0
	for _, o := range objects {
		if o.state == stateMarked && !all {
			continue
		}
		if n++; n == 1 {
			fmt.Fprintln(w, "STATE\tKIND\tNAMESPACE\tNAME\tPOLICY\tRULE\tTRIGGER")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", o.state, o.Kind, o.Namespace, o.Name, o.policy(), o.label("rule-name"), o.triggerText())
	}
	if n == 0 {
		fmt.Fprintf(w, "%s with the labels of generate rules, marked without exception\n", terminal.Counted(len(objects), "object", "objects"))
	}
	return w.Flush()
}
