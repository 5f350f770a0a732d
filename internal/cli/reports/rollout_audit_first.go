package reports

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/settings"
)

// auditFirst are the flags of rollout that change which policies audit first.
type auditFirst struct {
	all, release, dryRun    bool
	installation, configMap string
}

func (a *auditFirst) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&a.all, "audit-first", false, "let all policies of the classic kinds that the cluster stores audit first: they report, and deny and change nothing")
	f.BoolVar(&a.release, "as-written", false, "let the policy do what it says again, after --audit-first")
	f.BoolVar(&a.dryRun, "dry-run", false, "with --audit-first or --as-written: only print what would change")
	f.StringVar(&a.installation, "installation-namespace", "kyverno", "namespace of the installation, whose ConfigMap lists the policies that audit first")
	f.StringVar(&a.configMap, "configmap", "kyverno", "main ConfigMap of the installation")
}

func (a *auditFirst) given() bool { return a.all || a.release }

func (a *auditFirst) args(cmd *cobra.Command, args []string) error {
	if a.all {
		if a.release {
			return errors.New("--audit-first and --as-written exclude each other")
		}
		if len(args) > 0 {
			return errors.New("--audit-first is about all policies: leave the name of the policy out")
		}
		return nil
	}
	if a.dryRun && !a.release {
		return errors.New("--dry-run belongs to --audit-first or --as-written")
	}
	return cobra.ExactArgs(1)(cmd, args)
}

// run changes the list of policies that audit first.
func (a *auditFirst) run(cmd *cobra.Command, from *reportSource, name string) error {
	ctx := cmd.Context()
	config, err := remote.Config(from.kubeconfig, from.context)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = remote.QPS, remote.Burst
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	api := client.CoreV1().ConfigMaps(a.installation)
	cm, err := api.Get(ctx, a.configMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no ConfigMap %s/%s: --installation-namespace and --configmap name that of the installation", a.installation, a.configMap)
	}
	if err != nil {
		return err
	}
	parsed, _ := settings.Parse(cm.Data) // `ephor preflight` reports mistakes in other keys
	before := parsed.AuditFirst
	var changed []string
	after := map[string]bool{}
	for key := range before {
		after[key] = true
	}
	if a.release {
		if changed, err = released(before, name); err != nil {
			return err
		}
		for _, key := range changed {
			delete(after, key)
		}
	} else {
		objects, err := dynamic.NewForConfig(config)
		if err != nil {
			return err
		}
		stored, err := storedPolicies(ctx, objects)
		if err != nil {
			return err
		}
		for _, key := range stored {
			if !before[key] {
				changed = append(changed, key)
			}
			after[key] = true
		}
	}
	out := terminal.Buffered(cmd.OutOrStdout())
	a.print(out, changed, len(after))
	if err := out.Flush(); err != nil || a.dryRun || len(changed) == 0 {
		return err
	}
	if cm.Data == nil {
		cm.Data = map[string]string{}
	}
	if cm.Data[settings.AuditFirstKey] = settings.AuditFirstText(after); len(after) == 0 {
		delete(cm.Data, settings.AuditFirstKey)
	}
	_, err = api.Update(ctx, cm, metav1.UpdateOptions{FieldManager: "ephor-rollout"}) // with the version that was read
	return err
}

// names returns the policies that audit first; none if the installation has no ConfigMap.
func (a *auditFirst) names(ctx context.Context, objects dynamic.Interface) (map[string]bool, error) {
	o, err := objects.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(a.installation).Get(ctx, a.configMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil // without the right to read it, the plan shows what the policy says
	}
	if err != nil {
		return nil, fmt.Errorf("read which policies audit first: %w", err)
	}
	text, _, _ := unstructured.NestedString(o.Object, "data", settings.AuditFirstKey)
	s, _ := settings.Parse(map[string]string{settings.AuditFirstKey: text})
	return s.AuditFirst, nil
}

func (a *auditFirst) print(w io.Writer, changed []string, all int) {
	does := "audits first"
	if a.release {
		does = "does what it says"
	}
	for _, key := range changed {
		fmt.Fprintf(w, "%s %s\n", key, does)
	}
	if a.dryRun {
		fmt.Fprint(w, "nothing was changed: ")
	}
	fmt.Fprintf(w, "%s %s first\n", terminal.Counted(all, "policy", "policies"), map[bool]string{true: "audits", false: "audit"}[all == 1])
}

// released returns the keys of the policies with the name: NAME, NAMESPACE/NAME, or the kind before it.
func released(keys map[string]bool, name string) (out []string, err error) {
	for key := range keys {
		if _, key2, _ := strings.Cut(key, "/"); key == name || key2 == name {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	switch {
	case len(out) == 0:
		return nil, fmt.Errorf("no policy %s audits first; those that do: %s", name, settings.AuditFirstText(keys))
	case len(out) > 1:
		return nil, fmt.Errorf("several policies have the name %s: name one of %s", name, strings.Join(out, ", "))
	}
	return out, nil
}

// storedPolicies returns the keys of all policies of superseded kinds in the cluster, sorted.
func storedPolicies(ctx context.Context, objects dynamic.Interface) (keys []string, err error) {
	for _, k := range compile.Kinds {
		if !k.Superseded {
			continue
		}
		_, err := controller.Pages(ctx, metav1.ListOptions{Limit: reportPage}, objects.Resource(k.GVR()).List, func(page *unstructured.UnstructuredList) error {
			for i := range page.Items {
				o := &page.Items[i]
				keys = append(keys, settings.AuditFirstName(k.Kind, o.GetNamespace(), o.GetName()))
			}
			return nil
		})
		if err != nil && !apierrors.IsNotFound(err) { // the cluster need not have the kind
			return nil, fmt.Errorf("list policies of the kind %s: %w", k.Kind, err)
		}
	}
	slices.Sort(keys)
	return keys, nil
}
