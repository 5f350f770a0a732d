package remote

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/rollout"
)

// Metas reads the metadata of objects that is needed to find their owners.
type Metas struct {
	Kinds  *Served
	Client metadata.Interface
}

// Read implements rollout.Owners.Read.
func (m Metas) Read(ctx context.Context, r compliance.Resource) (rollout.Meta, bool, error) {
	group := ""
	if g, _, found := strings.Cut(r.APIVersion, "/"); found {
		group = g
	}
	kinds := m.Kinds.Wanted(policy.Target{Group: group, Version: "*", Kind: r.Kind})
	if len(kinds) == 0 || r.Name == "" {
		return rollout.Meta{}, false, nil // if the cluster no longer serves the kind, the owner no longer exists
	}
	if !kinds[0].Namespaced {
		r.Namespace = ""
	}
	o, err := m.Client.Resource(kinds[0].GVR()).Namespace(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return rollout.Meta{}, false, nil
	case err != nil:
		return rollout.Meta{}, false, fmt.Errorf("get %s %s: %w", kinds[0].GVR().GroupResource(), r.Name, err)
	}
	return rollout.Meta{Namespace: o.Namespace, UID: string(o.UID), Labels: o.Labels, Annotations: o.Annotations, Owners: o.OwnerReferences}, true, nil
}
