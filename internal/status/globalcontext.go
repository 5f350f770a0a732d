package status

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/value"
)

// refreshStep is the minimum age of a stored refresh time before a newer one is written.
const refreshStep = 10 * time.Second

// GlobalContext returns the status that a GlobalContextEntry should have. failure is the reason why it has no data, nil if it has
// data; refreshed is the time of the last data, zero for never. later is the time until a newer refresh time has to be written, 0 for
// never.
func GlobalContext(object *unstructured.Unstructured, failure error, refreshed, now time.Time) (s kyvernov2.GlobalContextEntryStatus, later time.Duration) {
	if have, ok := object.Object["status"].(map[string]any); ok {
		// An unreadable status is overwritten.
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(have, &s)
	}
	ready := metav1.Condition{
		Type: kyvernov1.PolicyConditionReady, Status: metav1.ConditionTrue, Reason: kyvernov1.PolicyReasonSucceeded,
		Message: messageReady, LastTransitionTime: metav1.NewTime(now),
	}
	if failure != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, kyvernov1.PolicyReasonFailed, value.Message(failure.Error())
	}
	changed := meta.SetStatusCondition(&s.Conditions, ready)
	if !refreshed.IsZero() && s.LastRefreshTime.After(now) {
		s.LastRefreshTime = metav1.Time{} // a wrong clock wrote it
	}
	refreshed = refreshed.Truncate(time.Second) // the precision of the API
	switch newer := refreshed.Sub(s.LastRefreshTime.Time); {
	case refreshed.IsZero() || newer <= 0:
	case changed || newer >= refreshStep:
		s.LastRefreshTime = metav1.NewTime(refreshed)
	default:
		later = refreshStep
	}
	return s, later
}

// messageReady is the text of the condition Ready. Tests and users compare it.
const messageReady = "Ready"
