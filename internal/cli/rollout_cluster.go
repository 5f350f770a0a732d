package cli

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/compliance"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/rollout"
)

// rolloutCluster is a cluster with the policy that is asked about.
type rolloutCluster struct {
	*cluster
	metadata metadata.Interface
	object   *unstructured.Unstructured
	program  *policy.Program
}

// open finds the cluster and the policy in it.
func (o *rolloutOptions) open(ctx context.Context) (*rolloutCluster, error) {
	c, err := openCluster(o.from.kubeconfig, o.from.context, false)
	if err != nil {
		return nil, fmt.Errorf("failed to reach the cluster (%w)", err)
	}
	config, err := clusterConfig(o.from.kubeconfig, o.from.context)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = clusterQPS, clusterBurst
	at := &rolloutCluster{cluster: c}
	if at.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, err
	}
	gvr := schema.GroupVersionResource{Group: "kyverno.io", Version: "v1", Resource: "clusterpolicies"}
	namespace, name, found := strings.Cut(o.policy, "/")
	if found {
		gvr.Resource = "policies"
	} else {
		namespace, name = "", o.policy
	}
	at.object, err = c.dynamic.Resource(gvr).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
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
	return at, nil
}

// facts are what the policy itself says.
func (at *rolloutCluster) facts(f *rollout.Facts) {
	f.Created = at.object.GetCreationTimestamp().Time
	conditions, _, _ := unstructured.NestedSlice(at.object.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Ready" && c["status"] != "True" {
			f.NotReady = fmt.Sprintf("its condition Ready is %v: %v", c["status"], c["message"])
		}
	}
	if !at.program.Settings.Background {
		f.NotScanned = "the policy has background: false, and is judged for requests only"
		return
	}
	for _, r := range at.program.Rules {
		if r.Needs.User || r.Needs.Roles {
			f.NotScanned = fmt.Sprintf("the rule %s asks who makes a request, and is judged for requests only", r.Name)
		}
	}
}

// meta reads what is needed of an object to find its owner.
func (at *rolloutCluster) meta(ctx context.Context, r compliance.Resource) (rollout.Meta, bool, error) {
	group := ""
	if g, _, found := strings.Cut(r.APIVersion, "/"); found {
		group = g
	}
	kinds := at.kinds.wanted(policy.Target{Group: group, Version: "*", Kind: r.Kind})
	if len(kinds) == 0 {
		return rollout.Meta{}, false, nil // an owner of a kind that is gone is gone
	}
	if !kinds[0].namespaced {
		r.Namespace = ""
	}
	o, err := at.metadata.Resource(kinds[0].gvr).Namespace(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return rollout.Meta{}, false, nil
	case err != nil:
		return rollout.Meta{}, false, fmt.Errorf("get %s %s: %w", kinds[0].gvr.GroupResource(), r.Name, err)
	}
	return rollout.Meta{Namespace: o.Namespace, UID: string(o.UID), Labels: o.Labels, Annotations: o.Annotations, Owners: o.OwnerReferences}, true, nil
}
