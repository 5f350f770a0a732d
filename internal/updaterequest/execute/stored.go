package execute

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/policy"
)

// Stored reads the metadata of a policy from the API server. It returns nil if the policy does not exist.
type Stored func(context.Context, policy.ID) (*metav1.ObjectMeta, error)

// StoredIn returns a Stored that reads with the client, which must have no cache.
func StoredIn(c client.Reader) Stored {
	return func(ctx context.Context, id policy.ID) (*metav1.ObjectMeta, error) {
		k := compile.Kinds.Named(id.Kind)
		if k == nil {
			return nil, nil
		}
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: k.Group, Version: k.Versions[0], Kind: k.Kind})
		err := c.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Name}, o)
		switch {
		case err != nil && absent(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("read %s %s: %w", id.Kind, id.Key(), err)
		}
		return &o.ObjectMeta, nil
	}
}

// Differs reports whether the policy exists in another state than the known one, which is nil if this process does not know the policy.
func (s Stored) Differs(ctx context.Context, id policy.ID, known *policy.Program) (bool, error) {
	o, err := s(ctx, id)
	if err != nil || o == nil {
		return false, err
	}
	return known == nil || o.UID != types.UID(known.UID) || o.Generation != known.Generation, nil
}
