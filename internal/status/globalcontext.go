package status

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
	kyvernov2 "github.com/ephor-dev/ephor/api/kyverno/v2"
	"github.com/ephor-dev/ephor/internal/value"
)

// refreshStep is how old a stored time of refresh has to be before a newer one is worth a write.
const refreshStep = 10 * time.Second

// GlobalContext returns the status that a GlobalContextEntry should have. failure is why it has no data, nil when it has
// some; refreshed is when they came last, zero for never. later is when a newer time of refresh is due that is not worth
// a write yet, 0 for never.
func GlobalContext(object *unstructured.Unstructured, failure error, refreshed, now time.Time) (s kyvernov2.GlobalContextEntryStatus, later time.Duration) {
	if have, ok := object.Object["status"].(map[string]any); ok {
		// What cannot be read is written anew.
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
	refreshed = refreshed.Truncate(time.Second) // what the API holds
	switch newer := refreshed.Sub(s.LastRefreshTime.Time); {
	case refreshed.IsZero() || newer <= 0:
	case changed || newer >= refreshStep:
		s.LastRefreshTime = metav1.NewTime(refreshed)
	default:
		later = refreshStep
	}
	return s, later
}

// messageReady is the text of the condition Ready; tests and users compare it.
const messageReady = "Ready"
