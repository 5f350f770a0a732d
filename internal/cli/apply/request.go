package apply

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/report"
)

// request is what a request for an exception says beside the object and the rules.
type request struct {
	namespace, reason, owner string
	lasts                    time.Duration
	written                  int
}

// NewExceptionRequest returns the command `ephor exceptions request`.
func NewExceptionRequest(families *compile.Registry) *cobra.Command {
	o := &options{families: families, format: "yaml", generateExceptions: true, request: &request{}}
	cmd := &cobra.Command{
		Use:   "request",
		Short: "Write the smallest exception for an object that policies refuse",
		Long: "Request evaluates policies on objects, and prints an exception for each object and rule that fails: by name, for the violated rule\n" +
			"only, and for the violated controls of a podSecurity rule. For a controller it covers the objects that the controller makes. It has a\n" +
			"reason, an owner and an end. Put it where approvers look: into a repository, or into the cluster with kubectl, where it is pending until\n" +
			"it is approved if the installation requires that.\n\n" +
			"The exit code is 1 when no policy refuses the objects.",
		Example: "  ephor exceptions request --policy policies/ -f deployment.yaml --reason 'the vendor runs as root' --owner team-shop\n" +
			"  ephor exceptions request --policy policies/ -f deployment.yaml --reason x --owner y -n exceptions | kubectl apply -f -",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch r := o.request; {
			case len(o.policies) == 0 || len(o.resources) == 0:
				return errors.New("name policies with --policy and objects with --filename")
			case r.reason == "" || r.owner == "":
				return errors.New("say why with --reason, and who answers for it with --owner")
			case r.lasts <= 0:
				return errors.New("--for must be positive")
			}
			err := o.run(cmd)
			switch {
			case err != nil && o.request.written > 0 && terminal.Code(err) == 1:
				return nil // the failures are what the exceptions are for
			case err == nil && o.request.written == 0:
				return errors.New("the policies refuse none of the objects, so no exception is needed")
			}
			return err
		},
	}
	f := cmd.Flags()
	f.VarP(terminal.Paths(&o.policies), "policy", "p", "policies: files, directories, globs, or - for standard input (repeat it, or separate by commas)")
	f.VarP(terminal.Paths(&o.resources), "filename", "f", "objects: files, directories, globs, or - for standard input (repeat it, or separate by commas)")
	f.StringVar(&o.request.reason, "reason", "", "why the exception is needed")
	f.StringVar(&o.request.owner, "owner", "", "who answers for it")
	f.DurationVar(&o.request.lasts, "for", defaultExceptionTTL, "time until its end")
	f.StringVarP(&o.request.namespace, "namespace", "n", "", "namespace of the exception; by default that of the object")
	return cmd
}

// complete makes a generated exception a request: an end in place of the label that deletes it, a reason, an owner, and the controller in place of
// wildcards for its objects.
func (r *request) complete(e *report.Entry, object map[string]any) {
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
	if e.Rule.Origin.Controllers == "" {
		return
	}
	annotations[family.ExceptionCovers] = family.CoversWorkload
	spec, _ := object["spec"].(map[string]any)
	if list, ok := spec["exceptions"].([]any); ok {
		list[0].(map[string]any)["ruleNames"] = []any{e.Rule.Origin.Parent}
		resources := map[string]any{"kinds": []any{e.Resource.Kind}, "names": []any{e.Resource.Name}}
		if e.Resource.Namespace != "" {
			resources["namespaces"] = []any{e.Resource.Namespace}
		}
		spec["match"] = map[string]any{"all": []any{map[string]any{"resources": resources}}}
		return
	}
	spec["matchConditions"] = []any{map[string]any{"name": "the-object", "expression": sameObject(e)}}
}
