package status

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// WriteException reports in the status of an exception that it could not be evaluated. It changes no other field, so every replica may write
// it. An exception that was deleted, or whose definition has no status, is not an error, and another one of its name is left alone.
func (w *Writer) WriteException(ctx context.Context, e *policy.Exception, want *kyvernov1.NotEvaluatedStatus) (written bool, err error) {
	object, err := StoredException(ctx, w.Client, e)
	if err != nil || object == nil || string(object.GetUID()) != e.UID {
		return false, err
	}
	want.Message = value.Message(want.Message)
	return w.patch(ctx, object, "notEvaluated", want)
}

// StoredException reads an exception, with its status, from the API server; nil if it was deleted. The client must have no cache.
func StoredException(ctx context.Context, c client.Reader, e *policy.Exception) (*unstructured.Unstructured, error) {
	object := objectOf(e)
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return object, nil
}

// objectOf returns an object with the identity of an exception.
func objectOf(e *policy.Exception) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(e.APIVersion)
	object.SetKind(e.Kind)
	object.SetNamespace(e.Namespace)
	object.SetName(e.Name)
	return object
}

// WriteApproval writes who approved an exception.
func (w *Writer) WriteApproval(ctx context.Context, object *unstructured.Unstructured, want *kyvernov1.ApprovalStatus) (written bool, err error) {
	return w.patch(ctx, object, "approval", want)
}

// Bounds of the use in the status of an exception.
const (
	exceptionDays  = 14
	exceptionRules = 50
	dayForm        = "2006-01-02"
)

// ExceptionTurn is how long the parts of a status take turns: in one turn the admission controllers may write the use of an exception, in
// the next one the reports controller its objects. So the status is written at most once in a turn.
const ExceptionTurn = 10 * time.Minute

// Turn reports whether it is the turn of the objects, or else of the use, when that turn began, and when the next one of the same part begins.
func Turn(now time.Time, objects bool) (mine bool, began, next time.Time) {
	n := now.Unix() / int64(ExceptionTurn.Seconds())
	mine = n%2 == 1 == objects
	began = time.Unix(n*int64(ExceptionTurn.Seconds()), 0).UTC()
	if mine {
		return mine, began, began.Add(2 * ExceptionTurn)
	}
	return mine, began, began.Add(ExceptionTurn)
}

// inTurn reports whether a status was written in the turn that began then. A later time is of a wrong clock.
func inTurn(at metav1.Time, began time.Time) bool {
	return !at.Time.Before(began) && at.Time.Before(began.Add(ExceptionTurn))
}

// Uses are the exempt requests since the last status.
type Uses struct {
	Last  time.Time
	Count int64
	Rules map[string]bool // policy/rule
}

// WriteExceptionUse adds uses to the status of the exception as it is stored. If another replica wrote it since the given time, or meanwhile,
// it writes nothing and returns false.
func (w *Writer) WriteExceptionUse(ctx context.Context, object *unstructured.Unstructured, uses *Uses, now, since time.Time) (written bool, err error) {
	have := statusPart[kyvernov1.ExceptionUseStatus](object, "use")
	if have != nil && inTurn(have.At, since) {
		return false, nil
	}
	want := &kyvernov1.ExceptionUseStatus{At: metav1.NewTime(now), Last: metav1.NewTime(uses.Last)}
	rules := maps.Clone(uses.Rules)
	if have != nil {
		want.Days = have.Days
		if have.Last.After(uses.Last) && !have.Last.After(now) {
			want.Last = have.Last
		}
		for _, r := range have.Rules {
			rules[r] = true
		}
	}
	day := uses.Last.UTC().Format(dayForm)
	i := slices.IndexFunc(want.Days, func(d kyvernov1.ExceptionDay) bool { return d.Day == day })
	if i < 0 {
		i, want.Days = len(want.Days), append(want.Days, kyvernov1.ExceptionDay{Day: day})
	}
	want.Days[i].Requests += uses.Count
	slices.SortFunc(want.Days, func(a, b kyvernov1.ExceptionDay) int { return strings.Compare(a.Day, b.Day) })
	want.Days = want.Days[max(0, len(want.Days)-exceptionDays):]
	want.Rules = slices.Sorted(maps.Keys(rules))
	want.Rules = want.Rules[:min(len(want.Rules), exceptionRules)]
	return w.patchVersion(ctx, object, "use", want)
}

// WriteExceptionObjects writes the number of exempt objects into the status of the exception as it is stored, unless it has them since the
// given time.
func (w *Writer) WriteExceptionObjects(ctx context.Context, object *unstructured.Unstructured, want *kyvernov1.ExceptionObjectsStatus, since time.Time) (written bool, err error) {
	have := statusPart[kyvernov1.ExceptionObjectsStatus](object, "objects")
	want.Rules = want.Rules[:min(len(want.Rules), exceptionRules)]
	if have != nil {
		if inTurn(have.At, since) {
			return false, nil
		}
		same := *have
		if same.At = want.At; equality.Semantic.DeepEqual(&same, want) {
			return false, nil // an unchanged status is not worth a write
		}
	}
	return w.patchVersion(ctx, object, "objects", want)
}

// HasUse reports whether the status of an exception has its use or its objects.
func HasUse(object *unstructured.Unstructured) bool {
	return statusPart[kyvernov1.ExceptionUseStatus](object, "use") != nil || statusPart[kyvernov1.ExceptionObjectsStatus](object, "objects") != nil
}

// UseOf and ObjectsOf return the parts of the status of an exception; nil for none.
func UseOf(object map[string]any) *kyvernov1.ExceptionUseStatus {
	return statusPart[kyvernov1.ExceptionUseStatus](&unstructured.Unstructured{Object: object}, "use")
}

// ObjectsOf is described at UseOf.
func ObjectsOf(object map[string]any) *kyvernov1.ExceptionObjectsStatus {
	return statusPart[kyvernov1.ExceptionObjectsStatus](&unstructured.Unstructured{Object: object}, "objects")
}

// PerDay returns the mean number of exempt requests per day, since the first day of the status.
func PerDay(use *kyvernov1.ExceptionUseStatus, now time.Time) float64 {
	if len(use.Days) == 0 {
		return 0
	}
	sum := int64(0)
	for _, d := range use.Days {
		sum += d.Requests
	}
	days := 1.0
	if first, err := time.Parse(dayForm, use.Days[0].Day); err == nil {
		days = max(days, math.Ceil(now.Sub(first).Hours()/24))
	}
	return float64(sum) / days
}

// statusPart returns a part of a status; nil if there is none.
func statusPart[T any](object *unstructured.Unstructured, field string) *T {
	fields, found, _ := unstructured.NestedMap(object.Object, "status", field)
	if !found {
		return nil
	}
	out := new(T)
	if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, out) != nil {
		return nil
	}
	return out
}
