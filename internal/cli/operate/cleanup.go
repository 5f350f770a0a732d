package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"

	"ephor.invalid/ephor/internal/cleanup"
	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
)

func NewCleanup() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Inspect policies that delete objects on a schedule",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCleanupPreview())
	return cmd
}

// preview holds the flags of `cleanup preview`, and the output.
type preview struct {
	policy, namespace       string
	exceptions              string
	installation, configMap string
	kubeconfig, context     string
	output                  string
	protect                 bool
	out, warnings           io.Writer
}

func newCleanupPreview() *cobra.Command {
	p := &preview{}
	cmd := &cobra.Command{
		Use:   "preview [KIND/]POLICY",
		Short: "List what a scheduled deletion policy would delete now, without deleting it",
		Long: "Preview evaluates the objects of the cluster as the next run of the policy would, and lists those that the run would\n" +
			"delete. POLICY is the name of a " + kindsOf(false, " or ") + " or, with --namespace, of a\n" + kindsOf(true, " or ") + ". If two kinds have a policy of that name,\n" +
			"add the kind, as in " + example().Short + "/old-pods. The command needs permission to list the kinds that the policy names, and to read\n" +
			"what its expressions look up. The annotation " + cleanup.PreviewAnnotation + "=true on the policy makes the cleanup controller\nlist objects instead of deleting them.",
		Example: "  ephor cleanup preview old-pods\n  ephor cleanup preview " + example().Short + "/old-pods\n  ephor cleanup preview old-pods -n team-a -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.policy, p.out, p.warnings = args[0], cmd.OutOrStdout(), cmd.ErrOrStderr()
			if p.output != "" && p.output != "json" {
				return fmt.Errorf("--output: %q is not json", p.output)
			}
			failed, err := p.run(cmd.Context())
			if err != nil {
				return err
			}
			if failed {
				return terminal.End(cmd, 1)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&p.namespace, "namespace", "n", "", "namespace of the policy; empty for a cluster-scoped policy")
	f.StringVarP(&p.output, "output", "o", "", "output format: json for one JSON document instead of text")
	terminal.Choices(cmd, "output", "json")
	f.StringVar(&p.installation, "installation-namespace", "kyverno", "namespace of the installation, whose resource filters exclude objects from deletion")
	f.StringVar(&p.configMap, "configmap", "kyverno", "main ConfigMap of the installation")
	f.StringVar(&p.exceptions, "exception-namespace", "", "namespace whose PolicyExceptions exclude objects from deletion, like --exceptionNamespace of the cleanup controller; * for all namespaces, empty for none")
	f.BoolVar(&p.protect, "protect-managed-resources", false, "do not delete resources that are labelled as managed by kyverno, like --protectManagedResources of the cleanup controller")
	f.StringVar(&p.kubeconfig, "kubeconfig", "", "kubeconfig file")
	f.StringVar(&p.context, "context", "", "context of the kubeconfig to use")
	return cmd
}

// run prints the plan of a run. failed reports that the plan is incomplete.
func (p *preview) run(ctx context.Context) (failed bool, err error) {
	c, err := remote.Open(p.kubeconfig, p.context, false)
	if err != nil {
		return false, err
	}
	config, err := remote.Config(p.kubeconfig, p.context)
	if err != nil {
		return false, err
	}
	resources, err := clientdiscovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return false, err
	}
	program, err := p.program(ctx, c)
	if err != nil {
		return false, err
	}
	if program, err = p.excepted(ctx, c.Dynamic, program); err != nil {
		return false, err
	}
	s, err := p.settings(ctx, c)
	if err != nil {
		return false, err
	}
	executor := &cleanup.Executor{
		Resources: discovery.New(resources, time.Now), Objects: c.Dynamic, Root: c.Root, NamespaceLabels: c.NamespaceLabels,
		Settings: func() *settings.Settings { return s }, Protect: p.protect, Log: slog.New(slog.DiscardHandler),
	}
	plan, err := executor.Plan(ctx, program)
	if err != nil {
		return false, err
	}
	return len(plan.Failures) > 0, p.print(program, plan)
}

// program returns the policy as it is stored in the cluster.
func (p *preview) program(ctx context.Context, c *remote.Cluster) (*policy.Program, error) {
	u, err := findScheduled(ctx, c.Dynamic, p.namespace, p.policy)
	if err != nil {
		return nil, err
	}
	program, diags := compile.One(compile.Object{Value: u.Object})
	if err := diags.Errors().Err(); err != nil {
		return nil, fmt.Errorf("the policy has a mistake, and deletes nothing: %w", err)
	}
	return program, nil
}

// settings returns the settings of the installation, whose filters the cleanup controller applies.
func (p *preview) settings(ctx context.Context, c *remote.Cluster) (*settings.Settings, error) {
	u, err := c.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(p.installation).
		Get(ctx, p.configMap, metav1.GetOptions{})
	if err != nil {
		fmt.Fprintf(p.warnings, "Warning: objects that the installation's resource filters spare are listed, too: %v\n", err)
		return settings.Defaults(), nil
	}
	var cm corev1.ConfigMap
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &cm); err != nil {
		return nil, err
	}
	s, _ := settings.Parse(cm.Data)
	return s, nil
}

// previewed is an object in the printed list.
type previewed struct {
	APIVersion  string `json:"apiVersion"`
	Kind        string `json:"kind"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name"`
	UID         string `json:"uid"`
	Propagation string `json:"deletionPropagationPolicy,omitempty"`
}

func (p *preview) print(program *policy.Program, plan *cleanup.Plan) error {
	if p.output == "json" {
		doc := struct {
			Policy   string      `json:"policy"`
			Delete   []previewed `json:"delete"`
			Failures []string    `json:"failures,omitempty"`
		}{Policy: program.Key(), Delete: []previewed{}}
		for _, o := range plan.Delete {
			doc.Delete = append(doc.Delete, previewed{o.Kind.GroupVersion().String(), o.Kind.Kind, o.Namespace, o.Name, o.UID, o.Propagation})
		}
		for _, f := range plan.Failures {
			doc.Failures = append(doc.Failures, failureText(f))
		}
		e := json.NewEncoder(p.out)
		e.SetIndent("", "  ")
		return e.Encode(doc)
	}
	for _, o := range plan.Delete {
		where := o.Name
		if o.Namespace != "" {
			where = o.Namespace + "/" + o.Name
		}
		fmt.Fprintf(p.out, "%s %s\n", o.Kind.Kind, where)
	}
	for _, f := range plan.Failures {
		fmt.Fprintf(p.warnings, "Error: %s\n", failureText(f))
	}
	_, err := fmt.Fprintf(p.out, "%d of %d objects would be deleted\n", len(plan.Delete), plan.Looked)
	return err
}

func failureText(f cleanup.Failure) string {
	if f.Object.Name == "" {
		return f.Err.Error()
	}
	return f.Object.String() + ": " + f.Err.Error()
}
