package status

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/seal"
	policystatus "ephor.invalid/ephor/internal/status"
)

// Approvals writes approvals of exceptions into their status. The review of an exception records who approved it; the approval is written
// once the exception is stored with the content of the review.
type Approvals struct {
	writer *policystatus.Writer
	reader client.Reader // without a cache
	seals  keystore.Seals
	log    *slog.Logger
	now    func() time.Time
	news   *controller.Signal

	mu      sync.Mutex
	waiting map[client.ObjectKey]approval // by kind, since both groups may have the same names
}

type approval struct {
	gvk     metav1.TypeMeta
	content string
	by      string
	since   time.Time
}

// Bounds of approvals that wait for their exception.
const (
	approvalWait = time.Minute
	maxApprovals = 10_000
)

// NewApprovals returns Approvals that write with the client.
func NewApprovals(c client.Client, reader client.Reader, seals keystore.Seals, log *slog.Logger) *Approvals {
	return &Approvals{writer: &policystatus.Writer{Client: c}, reader: reader, seals: seals, log: log, now: time.Now, news: new(controller.Signal), waiting: map[client.ObjectKey]approval{}}
}

// Approve records that the user approved the exception as it is. Requests wait for it, so it writes nothing itself.
func (a *Approvals) Approve(object map[string]any, user string) {
	u := &unstructured.Unstructured{Object: object}
	key := keyOf(u)
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, again := a.waiting[key]; !again && len(a.waiting) >= maxApprovals {
		a.log.Error("approval is not written: too many wait; approve the exception again", "exception", key.String(), "by", user, "most", maxApprovals)
		return
	}
	a.waiting[key] = approval{metav1.TypeMeta{APIVersion: u.GetAPIVersion(), Kind: u.GetKind()}, mark.ApprovedContent(object), user, a.now()}
	a.news.Fire()
}

func keyOf(u *unstructured.Unstructured) client.ObjectKey {
	group, _, _ := strings.Cut(u.GetAPIVersion(), "/")
	return client.ObjectKey{Namespace: group + "/" + u.GetNamespace(), Name: u.GetName()}
}

// Row returns the row that writes the approvals.
func (a *Approvals) Row() controller.Row {
	return controller.Row{Name: "exception-approvals", Sources: []controller.Source{a.news}, Reconcile: controller.Singleton(a.once)}
}

func (a *Approvals) once(ctx context.Context) (time.Duration, error) {
	a.mu.Lock()
	waiting := a.waiting
	a.waiting = map[client.ObjectKey]approval{}
	a.mu.Unlock()
	var errs []error
	left := 0
	for key, x := range waiting {
		done, err := a.write(ctx, key, x)
		if err != nil {
			errs = append(errs, err)
		}
		if done {
			continue
		}
		if a.now().Sub(x.since) > approvalWait {
			a.log.Warn("approval is not written: the exception was not stored as it was approved", "exception", key.String(), "by", x.by)
			continue
		}
		left++
		a.mu.Lock()
		if _, newer := a.waiting[key]; !newer {
			a.waiting[key] = x
		}
		a.mu.Unlock()
	}
	if left > 0 {
		return time.Second, errors.Join(errs...)
	}
	return 0, errors.Join(errs...)
}

// write writes the approval if the stored exception has the approved content.
func (a *Approvals) write(ctx context.Context, key client.ObjectKey, x approval) (done bool, err error) {
	_, namespace, _ := strings.Cut(key.Namespace, "/")
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(x.gvk.GroupVersionKind())
	switch err := a.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: key.Name}, u); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	}
	if mark.ApprovedContent(u.Object) != x.content {
		return false, nil
	}
	return a.seal(ctx, u, x.by, metav1.NewTime(a.now()))
}

// seal writes the approval of a stored exception, and reports whether it did.
func (a *Approvals) seal(ctx context.Context, u *unstructured.Unstructured, by string, at metav1.Time) (written bool, err error) {
	domain, parts := mark.Approval(u.Object, by)
	proof, err := a.seals.Seal(ctx, domain, parts...)
	if err != nil {
		return false, err
	}
	return a.writer.WriteApproval(ctx, u, &kyvernov1.ApprovalStatus{By: by, At: at, Seal: proof})
}

// renewEvery is the time between two rounds that renew approvals after a rotation of the key.
const renewEvery = time.Minute

// Renew returns the row that seals approvals with the current key that an older one proves.
func (a *Approvals) Renew(snapshot func() *catalog.Snapshot) controller.Row {
	once := func(ctx context.Context) (time.Duration, error) {
		ring, err := a.seals.Keys.Ring(ctx)
		if err != nil {
			return renewEvery, err
		}
		var errs []error
		for _, e := range snapshot().Exceptions() {
			if _, _, proof := approvalOf(e.Source()); ring.IsCurrent(proof) {
				continue
			}
			errs = append(errs, a.renew(ctx, e))
		}
		return renewEvery, errors.Join(errs...)
	}
	return controller.Row{Name: "exception-approvals-renewal", Owner: controller.Leader, Reconcile: controller.Singleton(once)}
}

func (a *Approvals) renew(ctx context.Context, e *policy.Exception) error {
	u, err := policystatus.StoredException(ctx, a.reader, e)
	if err != nil || u == nil {
		return err
	}
	by, at, proof := approvalOf(u.Object)
	domain, parts := mark.Approval(u.Object, by)
	if ok, err := a.seals.Sealed(ctx, proof, domain, parts...); err != nil || !ok {
		return err
	}
	_, err = a.seal(ctx, u, by, at)
	return err
}

// approvalOf reads the approval in the status of an exception.
func approvalOf(object map[string]any) (by string, at metav1.Time, proof string) {
	by, _, _ = unstructured.NestedString(object, "status", "approval", "by")
	proof, _, _ = unstructured.NestedString(object, "status", "approval", "seal")
	text, _, _ := unstructured.NestedString(object, "status", "approval", "at")
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		at = metav1.NewTime(t)
	}
	return by, at, proof
}

// hasApproval reports whether the status of an exception has an approval, proved or not.
func hasApproval(object map[string]any) bool {
	_, _, proof := approvalOf(object)
	return proof != ""
}

// KeysOfApprovals returns the row that fires changed after the keys of approvals changed: an approval has no effect without its key.
func KeysOfApprovals(keys *keystore.Cached, changed func()) controller.Row {
	var last *seal.Keyring
	once := func(ctx context.Context) (time.Duration, error) {
		ring, err := keys.Ring(ctx)
		if err != nil {
			return renewEvery, err
		}
		if last != nil && !last.Same(ring) {
			changed()
		}
		last = ring
		return renewEvery, nil
	}
	return controller.Row{Name: "exception-approval-keys", Reconcile: controller.Singleton(once)}
}

// approvedWithin bounds the check of one approval, which may read the keys.
const approvedWithin = 10 * time.Second

// approved returns a function that reports whether an exception has a proved approval.
func approved(seals keystore.Seals) func(object map[string]any) (bool, error) {
	return func(object map[string]any) (bool, error) {
		ctx, cancel := context.WithTimeout(context.Background(), approvedWithin)
		defer cancel()
		by, _, proof := approvalOf(object)
		domain, parts := mark.Approval(object, by)
		return seals.Sealed(ctx, proof, domain, parts...)
	}
}
