package apply

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/report"
)

// Request is a request for exceptions: what they say beside the object and the rules, and where they are written.
type Request struct {
	namespace, reason, owner string
	lasts                    time.Duration
	create                   bool
	kubeconfig, context      string
	written                  int
	owned                    bool // the objects of the entries are the controllers of those that failed
}

// AddFlags adds the flags of what a request says.
func (r *Request) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&r.reason, "reason", "", "why the exception is needed")
	f.StringVar(&r.owner, "owner", "", "who answers for it")
	f.DurationVar(&r.lasts, "for", defaultExceptionTTL, "time until its end")
	f.StringVarP(&r.namespace, "namespace", "n", "", "namespace of the exception; by default that of the object")
	f.BoolVar(&r.create, "create", false, "create the exception in the cluster instead of printing it")
}

// InCluster sets the cluster in which exceptions are created.
func (r *Request) InCluster(kubeconfig, context string) {
	r.kubeconfig, r.context = kubeconfig, context
}

// Check reports what the flags lack.
func (r *Request) Check() error {
	switch {
	case r.reason == "" || r.owner == "":
		return errors.New("say why with --reason, and who answers for it with --owner")
	case r.lasts <= 0:
		return errors.New("--for must be positive")
	}
	return nil
}

var errNotRefused = errors.New("the policies refuse none of the objects, so no exception is needed")

// Write writes the smallest exception for each failure among the entries.
// owned: the entries name the controllers of the objects.
func (r *Request) Write(cmd *cobra.Command, families *compile.Registry, entries []report.Entry, owned bool) (diags diag.List, err error) {
	r.owned = owned
	o := &options{families: families, format: "yaml", request: r}
	return diags, r.output(cmd, func(w io.Writer) error {
		if diags, err = o.writeExceptions(w, entries); err == nil && r.written == 0 {
			err = errNotRefused
		}
		return err
	})
}

// output passes what print prints to standard output, or creates it in the cluster.
func (r *Request) output(cmd *cobra.Command, print func(io.Writer) error) error {
	if !r.create {
		return print(cmd.OutOrStdout())
	}
	var text bytes.Buffer
	if err := print(&text); err != nil {
		return err
	}
	return remote.Create(cmd.Context(), r.kubeconfig, r.context, text.Bytes(), cmd.OutOrStdout(), cmd.ErrOrStderr())
}

// NewExceptionRequest returns the command `ephor exceptions request`.
func NewExceptionRequest(families *compile.Registry) *cobra.Command {
	r := &Request{}
	o := &options{families: families, format: "yaml", generateExceptions: true, request: r}
	cmd := &cobra.Command{
		Use:   "request",
		Short: "Write the smallest exception for an object that policies refuse",
		Long: "Request evaluates policies on objects, and prints an exception for each object and rule that fails: by name, for the violated rule\n" +
			"only, and for the violated controls of a podSecurity rule. For a controller it covers the objects that the controller makes. It has a\n" +
			"reason, an owner and an end. Put it where approvers look: into a repository, or into the cluster with --create, where it is pending\n" +
			"until it is approved if the installation requires that. `ephor why UID --exception` does the same for a recorded refusal.\n\n" +
			"The exit code is 1 when no policy refuses the objects.",
		Example: "  ephor exceptions request --policy policies/ -f deployment.yaml --reason 'the vendor runs as root' --owner team-shop\n" +
			"  ephor exceptions request --policy policies/ -f deployment.yaml --reason x --owner y -n exceptions --create",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(o.policies) == 0 || len(o.resources) == 0 {
				return errors.New("name policies with --policy and objects with --filename")
			}
			if err := r.Check(); err != nil {
				return err
			}
			return r.output(cmd, func(w io.Writer) error {
				cmd.SetOut(w)
				switch err := o.run(cmd); {
				case err != nil && r.written > 0 && terminal.Code(err) == 1:
					return nil // the failures are what the exceptions are for
				case err == nil && r.written == 0:
					return errNotRefused
				default:
					return err
				}
			})
		},
	}
	f := cmd.Flags()
	f.VarP(terminal.Paths(&o.policies), "policy", "p", "policies: files, directories, globs, or - for standard input (repeat it, or separate by commas)")
	f.VarP(terminal.Paths(&o.resources), "filename", "f", "objects: files, directories, globs, or - for standard input (repeat it, or separate by commas)")
	r.AddFlags(f)
	f.StringVar(&r.kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster for --create")
	f.StringVar(&r.context, "context", "", "context of the kubeconfig to use")
	return cmd
}

// complete makes a generated exception a request: an end in place of the label that deletes it, a reason, an owner, and the controller in place of
// wildcards for its objects.
func (r *Request) complete(e *report.Entry, object map[string]any) {
	r.written++
	metadata, _ := object["metadata"].(map[string]any)
	delete(metadata, "labels")
	ends := offline.Now().Add(r.lasts).UTC().Truncate(time.Second).Format(time.RFC3339)
	annotations := map[string]any{family.ExceptionExpires: ends, family.ExceptionReason: r.reason, family.ExceptionOwner: r.owner}
	metadata["annotations"] = annotations
	metadata["namespace"] = "default"
	for _, namespace := range []string{e.Resource.Namespace, r.namespace} {
		if namespace != "" {
			metadata["namespace"] = namespace
		}
	}
	if e.Rule.Origin.Controllers == "" && !r.owned {
		return
	}
	annotations[family.ExceptionCovers] = family.CoversWorkload
	spec, _ := object["spec"].(map[string]any)
	if list, ok := spec["exceptions"].([]any); ok {
		list[0].(map[string]any)["ruleNames"] = []any{cmp.Or(e.Rule.Origin.Parent, e.Rule.Name)}
		resources := map[string]any{"kinds": []any{e.Resource.Kind}, "names": []any{e.Resource.Name}}
		if e.Resource.Namespace != "" {
			resources["namespaces"] = []any{e.Resource.Namespace}
		}
		spec["match"] = map[string]any{"all": []any{map[string]any{"resources": resources}}}
		return
	}
	spec["matchConditions"] = []any{map[string]any{"name": "the-object", "expression": sameObject(e)}}
}
