package status

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
	"github.com/ephor-dev/ephor/internal/autogen"
	"github.com/ephor-dev/ephor/internal/value"
)

// The texts of the condition Ready; tests and users compare them. The second is followed by the reason.
const (
	messageReady    = "Ready"
	messageNotReady = "Not Ready"
)

// Desired is the status that a ClusterPolicy or Policy should have. notReady is why it is not served, nil when it is.
// Conditions of other types and what other controllers report are kept. The error means that the object is not a policy
// that can be read.
func Desired(object *unstructured.Unstructured, notReady error, now time.Time) (kyvernov1.PolicyStatus, error) {
	var p kyvernov1.ClusterPolicy // a Policy has the same spec and status
	// By JSON: the converter of the API machinery cannot read paramRef, one of whose fields has no JSON name.
	if err := json.Unmarshal(value.AppendJSON(nil, object.Object), &p); err != nil {
		return kyvernov1.PolicyStatus{}, fmt.Errorf("read %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	s := *p.Status.DeepCopy()
	if s.Budget != nil && s.Budget.ObservedGeneration != object.GetGeneration() {
		s.Budget = nil // it was another text
	}
	s.Ready = nil // the older form is no longer written
	s.RuleCount = count(p.Spec.Rules)
	s.Autogen.Rules = nil
	generated, err := autogen.Expand(p.Spec.Rules, p.Annotations)
	if err != nil && notReady == nil {
		notReady = err
	}
	for _, g := range generated {
		s.Autogen.Rules = append(s.Autogen.Rules, g.Rule)
	}
	ready := metav1.Condition{
		Type: kyvernov1.PolicyConditionReady, Status: metav1.ConditionTrue, Reason: kyvernov1.PolicyReasonSucceeded,
		Message: messageReady, LastTransitionTime: metav1.NewTime(now),
	}
	if notReady != nil {
		ready.Status, ready.Reason = metav1.ConditionFalse, kyvernov1.PolicyReasonFailed
		ready.Message = value.Message(messageNotReady + ": " + notReady.Error())
	}
	meta.SetStatusCondition(&s.Conditions, ready)
	return s, nil
}

// count counts the authored rules by what they do.
func count(rules []kyvernov1.Rule) kyvernov1.RuleCountStatus {
	var c kyvernov1.RuleCountStatus
	for i := range rules {
		r := &rules[i]
		switch {
		case r.Validation != nil:
			c.Validate++
		case r.Mutation != nil:
			c.Mutate++
		case r.Generation != nil:
			c.Generate++
		case len(r.VerifyImages) > 0:
			c.VerifyImages++
		}
	}
	return c
}
