package cleanup

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"ephor.invalid/ephor/internal/policy"
)

// attempts is the number of times that an object is evaluated again if it changes between the decision and the deletion.
const attempts = 5

// Delete deletes an object of a plan of p. Gone reports whether this call deleted it. It leaves alone, without an error, an object that
// was already deleted or replaced by another one, or that p no longer selects.
func (e *Executor) Delete(ctx context.Context, p *policy.Program, o Object) (gone bool, err error) {
	for range attempts {
		err := DeleteExactly(ctx, e.client(o.Resource, o.Namespace).Delete, o)
		if !apierrors.IsConflict(err) {
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return err == nil, err
		}
		item, err := e.read(ctx, o)
		switch {
		case err != nil:
			return false, fmt.Errorf("it changed, and cannot be read again: %w", err)
		case item == nil || string(item.GetUID()) != o.UID:
			return false, nil
		}
		var again Plan
		if !e.evaluate(ctx, p, o.Resource, item, &again) {
			if len(again.Failures) > 0 {
				return false, again.Failures[0].Err
			}
			return false, nil
		}
		o = again.Delete[0]
	}
	return false, errBusy
}

// read returns the current object; nil if it was deleted. It lists this one object, because a scheduled deletion requires the right to
// list, but not the right to get.
func (e *Executor) read(ctx context.Context, o Object) (*unstructured.Unstructured, error) {
	list, err := e.client(o.Resource, o.Namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", o.Name).String()})
	if err != nil || len(list.Items) == 0 {
		return nil, err
	}
	return &list.Items[0], nil
}

var errBusy = errors.New("it keeps changing")

// Deleter deletes one object by name, as the clients of client-go do.
type Deleter func(ctx context.Context, name string, o metav1.DeleteOptions, subresources ...string) error

// DeleteExactly deletes the object only in the version on which the decision was based: it returns a conflict if the object changed or was
// replaced by another one with the same name.
func DeleteExactly(ctx context.Context, remove Deleter, o Object) error {
	uid := types.UID(o.UID)
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &o.ResourceVersion}}
	if o.Propagation != "" {
		propagation := metav1.DeletionPropagation(o.Propagation)
		options.PropagationPolicy = &propagation
	}
	return remove(ctx, o.Name, options)
}
