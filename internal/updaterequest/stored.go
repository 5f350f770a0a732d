package updaterequest

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/policy"
)

// Missing reports whether an object does not exist. It returns false if the API server does not serve the version of its kind, which it also
// answers with the code 404: the object may exist in another version, or be served again.
func Missing(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Absent reports whether the kind cannot be listed because it is not served or does not support lists.
func Absent(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) || meta.IsNoMatchError(err)
}

// ListOf returns an empty list of objects of a kind, and MetadataOf one of their metadata, for Each.
func ListOf(gvk schema.GroupVersionKind) client.ObjectList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return list
}

func MetadataOf(gvk schema.GroupVersionKind) client.ObjectList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return list
}

// pageSize is the number of objects in a page. Pages of metadata have twice as many.
const pageSize = 250

// Each lists objects page by page until f returns false. Objects of different pages share no memory.
func Each[T runtime.Object](ctx context.Context, c client.Reader, empty client.ObjectList, options *client.ListOptions, f func(T) bool) error {
	options.Limit = pageSize
	if _, metadata := empty.(*metav1.PartialObjectMetadataList); metadata {
		options.Limit *= 2
	}
	read := func(ctx context.Context, o metav1.ListOptions) (client.ObjectList, error) {
		options.Limit, options.Continue = o.Limit, o.Continue
		page := empty.DeepCopyObject().(client.ObjectList)
		return page, c.List(ctx, page, options)
	}
	_, err := controller.Pages(ctx, metav1.ListOptions{Limit: options.Limit}, read, func(page client.ObjectList) error {
		return meta.EachListItem(page, func(o runtime.Object) error {
			if !f(o.(T)) {
				return controller.ErrEnough
			}
			return nil
		})
	})
	if err != nil {
		gvk := empty.GetObjectKind().GroupVersionKind()
		return fmt.Errorf("list %s %s: %w", gvk.GroupVersion(), strings.TrimSuffix(gvk.Kind, "List"), err)
	}
	return nil
}

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
		case err != nil && Absent(err):
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
