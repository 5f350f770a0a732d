package ring

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/names"
)

// Label selects the Leases of the members of one controller; its value is the controller's name.
const Label = names.Domain + "ring"

// Leases reads and writes the Leases of the namespace: coordinationv1.LeaseInterface of client-go. The client must not
// throttle and not use a cache, so that a list shows everything that was written before the request.
type Leases interface {
	Create(context.Context, *coordinationv1.Lease, metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(context.Context, *coordinationv1.Lease, metav1.UpdateOptions) (*coordinationv1.Lease, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
	List(context.Context, metav1.ListOptions) (*coordinationv1.LeaseList, error)
}

const (
	// most is the maximum number of members in a ring.
	most = 500
	// patience bounds one round, so that a request without an answer does not prevent the next round before the authority
	// ends.
	patience = 5 * time.Second
	// staleAfter is how long a Lease without renewals is kept.
	staleAfter = 10 * time.Minute
)

// list returns our own Lease, nil if there is none, and the Leases of the others.
func (r *Ring) list(ctx context.Context) (own *coordinationv1.Lease, others []*coordinationv1.Lease, err error) {
	list, err := r.Leases.List(ctx, metav1.ListOptions{LabelSelector: Label + "=" + r.Controller, Limit: most})
	if err != nil {
		return nil, nil, fmt.Errorf("list the Leases of the ring: %w", err)
	}
	if list.Continue != "" {
		return nil, nil, fmt.Errorf("there are more than %d Leases with the label %s=%s: nothing is shared between so many", most, Label, r.Controller)
	}
	for i := range list.Items {
		if l := &list.Items[i]; l.Name == r.name {
			own = l
		} else {
			others = append(others, l)
		}
	}
	return own, others, nil
}

// write creates our Lease, or renews the existing one.
func (r *Ring) write(ctx context.Context, there *coordinationv1.Lease) error {
	now := metav1.NewMicroTime(time.Now()) // for people only; the time is never compared
	seconds := int32(Valid / time.Second)
	if there == nil {
		zero := int32(0)
		_, err := r.Leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.name, Labels: r.labels()},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &r.holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now, LeaseTransitions: &zero,
			},
		}, metav1.CreateOptions{})
		return r.wrote(err, "make")
	}
	next := there.DeepCopy()
	if holderOf(there) != r.holder {
		transitions := int32(1)
		if t := there.Spec.LeaseTransitions; t != nil {
			transitions += *t
		}
		next.Spec.AcquireTime, next.Spec.LeaseTransitions = &now, &transitions
	}
	next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds, next.Spec.RenewTime = &r.holder, &seconds, &now
	_, err := r.Leases.Update(ctx, next, metav1.UpdateOptions{})
	return r.wrote(err, "renew")
}

func (r *Ring) wrote(err error, attempt string) error {
	if err != nil {
		return fmt.Errorf("%s the Lease %s: %w", attempt, r.name, err)
	}
	r.written = true
	return nil
}

func (r *Ring) labels() map[string]string {
	return map[string]string{Label: r.Controller, "app.kubernetes.io/managed-by": "ephor"}
}

// remove deletes a Lease in the version that was read.
func (r *Ring) remove(ctx context.Context, l *coordinationv1.Lease) error {
	err := r.Leases.Delete(ctx, l.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // another member removed it, or its member renewed it
	}
	if err != nil {
		return fmt.Errorf("remove the Lease %s: %w", l.Name, err)
	}
	return nil
}

func holderOf(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// errTaken is the error for a Lease that another process holds, or that was deleted.
type errTaken struct{ by string }

func (e errTaken) Error() string {
	if e.by == "" {
		return "our Lease was deleted"
	}
	return "our Lease was taken by " + e.by
}

func taken(err error) bool { return errors.As(err, &errTaken{}) }
