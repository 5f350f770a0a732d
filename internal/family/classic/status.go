package classic

import (
	"encoding/json"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/autogen"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/value"
)

// The messages of the condition Ready, which tests and users compare. messageNotReady is followed by a colon and the reason.
const (
	messageReady    = "Ready"
	messageNotReady = "Not Ready"
)

// status returns the status that a policy should have. It preserves conditions of other types and the fields that other controllers write.
func status(object map[string]any, state family.State) (map[string]any, error) {
	var p kyvernov1.ClusterPolicy // a Policy has the same spec and status
	// JSON is used because the converter of the API machinery cannot read paramRef, one of whose fields has no JSON name.
	if err := json.Unmarshal(value.AppendJSON(nil, object), &p); err != nil {
		return nil, err
	}
	s, notReady := *p.Status.DeepCopy(), state.NotReady
	if notReady == nil && len(state.Lacking) > 0 {
		notReady = errors.New(family.Texts(state.Lacking))
	}
	if s.Budget != nil && s.Budget.ObservedGeneration != p.Generation {
		s.Budget = nil // it describes an older generation of the policy
	}
	s.Ready = nil // the deprecated field is no longer written
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
		Message: messageReady, LastTransitionTime: metav1.NewTime(state.Now),
	}
	if state.Withheld { // not a condition of its own: clients that wait for a classic policy expect exactly one
		ready.Message += ". " + family.TextLogin
	}
	if notReady != nil {
		ready.Status, ready.Reason = metav1.ConditionFalse, kyvernov1.PolicyReasonFailed
		ready.Message = value.Message(messageNotReady + ": " + notReady.Error())
	}
	meta.SetStatusCondition(&s.Conditions, ready)
	meta.RemoveStatusCondition(&s.Conditions, family.ConditionLogin) // of an earlier version
	state.SetKubernetes(&s.Conditions, p.Generation)
	return family.Tree(s)
}

// count counts the authored rules by kind.
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
