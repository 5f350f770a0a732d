package operate

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ephor-dev/ephor/internal/cli/remote"
	"github.com/ephor-dev/ephor/internal/cli/terminal"
)

func NewAdopt() *cobra.Command {
	var kubeconfig, context, namespace string
	var mark, all, rotate bool
	cmd := &cobra.Command{
		Use:   "adopt [KIND/NAME | KIND/NAMESPACE/NAME]...",
		Short: "List and mark objects whose labels say that a generate rule made them",
		Long: "Adopt lists the objects whose labels generate.kyverno.io/* say that a generate rule made them, and that the mark of the\n" +
			"background controller (annotation ephor.dev/generated) does not prove: the controller neither changes nor deletes them.\n" +
			"With --mark it marks the objects that are named, or all of them with --all: the administrator vouches for what their labels\n" +
			"say. The policy, the rule and the trigger have to be there. The controller adopts by itself what it can prove.",
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
	f.BoolVar(&mark, "mark", false, "mark the objects that are named, or all of them with --all")
	f.BoolVar(&all, "all", false, "list the objects that are marked, too; with --mark: mark all that are not")
	f.BoolVar(&rotate, "rotate-key", false, "make a new key for marks; those of older keys still count until they are made anew")
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
