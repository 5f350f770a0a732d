package reports

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/cli/remote"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/family/classic"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/rollout"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/wildcard"
)

// rolloutCluster is a cluster and the policy in question.
type rolloutCluster struct {
	*remote.Cluster
	metadata metadata.Interface
	object   *unstructured.Unstructured
	program  *policy.Program
}

// open connects to the cluster and finds the policy in it.
func (o *rolloutOptions) open(ctx context.Context) (*rolloutCluster, error) {
	c, err := remote.Open(o.from.kubeconfig, o.from.context, false)
	if err != nil {
		return nil, fmt.Errorf("failed to reach the cluster (%w)", err)
	}
	config, err := remote.Config(o.from.kubeconfig, o.from.context)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = remote.QPS, remote.Burst
	at := &rolloutCluster{Cluster: c}
	if at.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, err
	}
	namespace, name, found := strings.Cut(o.policy, "/")
	if !found {
		namespace, name = "", o.policy
	}
	at.object, err = c.Dynamic.Resource(classic.Family.Kinds.Scoped(found).GVR()).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !found {
		return nil, fmt.Errorf("%w; NAMESPACE/NAME finds a Policy", err)
	}
	if err != nil {
		return nil, err
	}
	program, diags := compile.One(compile.Object{Value: at.object.Object})
	if err := diags.Errors().Err(); err != nil {
		return nil, fmt.Errorf("the policy has a mistake: %w", err)
	}
	at.program = program
	first, err := o.audit.names(ctx, c.Dynamic)
	if err != nil {
		return nil, err
	}
	if first[settings.AuditFirstName(program.Kind, program.Namespace, program.Name)] {
		at.program = program.AuditFirst()
	}
	return at, nil
}

// facts sets what the policy itself states, and counts the resources that it names.
func (at *rolloutCluster) facts(ctx context.Context, f *rollout.Facts, namespaces []string) {
	f.Created = at.object.GetCreationTimestamp().Time
	for _, m := range at.object.GetManagedFields() {
		if m.Subresource == "" && m.Time != nil && m.Time.After(f.Changed) {
			f.Changed = m.Time.Time
		}
	}
	f.Existing = at.existing(ctx, namespaces)
	var status kyvernov1.PolicyStatus
	if tree, ok := at.object.Object["status"].(map[string]any); ok {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, &status); err != nil {
			f.NotReady = fmt.Sprintf("its status cannot be read: %v", err)
			return
		}
	}
	if c := meta.FindStatusCondition(status.Conditions, kyvernov1.PolicyConditionReady); c != nil && c.Status != metav1.ConditionTrue {
		f.NotReady = fmt.Sprintf("its condition Ready is %s: %s", c.Status, c.Message)
	}
	if !at.program.Settings.Background {
		f.NotScanned = []string{"the policy has background: false, and is evaluated for requests only"}
		return
	}
	if status.BackgroundScan == nil {
		return
	}
	for _, n := range status.BackgroundScan.NotScanned {
		if n.Rule != "" {
			f.NotScanned = append(f.NotScanned, fmt.Sprintf("the rule %s is not scanned: %s", n.Rule, n.Reason))
		} else {
			f.NotRead = append(f.NotRead, n.Kind+": "+n.Reason)
		}
	}
}

// existing counts the resources of the kinds that the rules name without wildcards, in the requested namespaces. It lists
// a single object, since the response contains the number of remaining ones, so that it needs one request for each kind
// and namespace. It leaves out resources that cannot be counted.
func (at *rolloutCluster) existing(ctx context.Context, namespaces []string) map[rollout.Kind]int {
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	out := map[rollout.Kind]int{}
	for _, r := range at.program.Rules {
		for _, t := range r.Targets {
			if !rollout.Enforced(r) || t.Subresource != "" || wildcard.Has(t.Kind) || slices.ContainsFunc(namespaces, wildcard.Has) {
				continue
			}
			found, _ := at.Kinds.Wanted(t)
			for _, k := range found {
				kind := rollout.Kind{Group: k.Group, Kind: k.Kind}
				if _, known := out[kind]; known || !k.Namespaced && namespaces[0] != "" {
					continue
				}
				if n, ok := at.count(ctx, k, namespaces); ok {
					out[kind] = n
				}
			}
		}
	}
	return out
}

func (at *rolloutCluster) count(ctx context.Context, k discovery.Resource, namespaces []string) (n int, ok bool) {
	for _, namespace := range namespaces {
		list, err := at.metadata.Resource(k.GVR()).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil || list.Continue != "" && list.RemainingItemCount == nil {
			return 0, false
		}
		n += len(list.Items)
		if list.RemainingItemCount != nil {
			n += int(*list.RemainingItemCount)
		}
	}
	return n, true
}
