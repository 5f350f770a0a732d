package status

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/policy"
	policystatus "ephor.invalid/ephor/internal/status"
)

// ExceptionObjects counts the objects that exceptions exempt, by the reports of the cluster, and writes the counts into the status of the
// exceptions.
type ExceptionObjects struct {
	Client client.Client
	Reader client.Reader // without a cache
	// Reports lists the reports, which have the resources Kinds.
	Reports  dynamic.Interface
	Kinds    []schema.GroupVersionResource
	Snapshot func() *catalog.Snapshot
	Now      func() time.Time

	counted   time.Time         // the turn in which the reports were last read
	unwritten []exceptionStatus // what was counted then, and could not be written yet
}

// exceptionStatus is the status that an exception should have.
type exceptionStatus struct {
	exception *policy.Exception
	status    kyvernov1.ExceptionObjectsStatus
}

// reportPage is the number of reports in a page, which have some kilobytes each.
const reportPage = 500

// Row returns the row of the leader. It reads the reports once in two turns of policystatus.ExceptionTurn, and not without exceptions.
func (o *ExceptionObjects) Row() controller.Row {
	return controller.Row{Name: "exception-objects", Owner: controller.Leader, Reconcile: controller.Singleton(o.once)}
}

func (o *ExceptionObjects) once(ctx context.Context) (time.Duration, error) {
	now := o.Now()
	mine, began, next := policystatus.Turn(now, true)
	exceptions := o.Snapshot().Exceptions()
	if !mine || len(exceptions) == 0 {
		return next.Sub(now), nil
	}
	if began != o.counted {
		if err := o.count(ctx, exceptions, now); err != nil {
			return next.Sub(now), err
		}
		o.counted = began
	}
	writer := &policystatus.Writer{Client: o.Client}
	var errs []error
	o.unwritten = slices.DeleteFunc(o.unwritten, func(x exceptionStatus) bool {
		err := o.write(ctx, writer, x, began)
		errs = append(errs, err)
		return err == nil
	})
	return next.Sub(now), errors.Join(errs...)
}

// count makes the status of all exceptions from the results of all reports.
func (o *ExceptionObjects) count(ctx context.Context, exceptions []*policy.Exception, now time.Time) error {
	counted := make([]*compliance.Exempt, len(exceptions))
	byName := map[string][]*compliance.Exempt{}
	for i, e := range exceptions {
		counted[i] = &compliance.Exempt{Name: e.Name, From: e.From}
		byName[e.Name] = append(byName[e.Name], counted[i])
	}
	for _, gvr := range o.Kinds {
		_, err := controller.Pages(ctx, metav1.ListOptions{Limit: reportPage}, o.Reports.Resource(gvr).List, func(page *unstructured.UnstructuredList) error {
			for i := range page.Items {
				r, _ := compliance.Decode(page.Items[i].Object) // results with mistakes are not ours
				for _, result := range r.Results {
					for _, name := range result.Exceptions() {
						for _, x := range byName[name] {
							x.Add(result)
						}
					}
				}
			}
			return nil
		})
		if err != nil && !apierrors.IsNotFound(err) { // the kind need not be served
			return err
		}
	}
	o.unwritten = nil
	for i, e := range exceptions {
		objects, needed, unneeded := counted[i].Count()
		o.unwritten = append(o.unwritten, exceptionStatus{e, kyvernov1.ExceptionObjectsStatus{
			At: metav1.NewTime(now), Exempt: int64(objects), Needed: int64(needed), Unneeded: int64(unneeded), Rules: counted[i].Rules(),
		}})
	}
	return nil
}

func (o *ExceptionObjects) write(ctx context.Context, w *policystatus.Writer, x exceptionStatus, began time.Time) error {
	object, err := policystatus.StoredException(ctx, o.Reader, x.exception)
	if err != nil || object == nil || string(object.GetUID()) != x.exception.UID {
		return err // it was deleted, and another exception may have its name
	}
	_, err = w.WriteExceptionObjects(ctx, object, &x.status, began)
	return err
}
