package status

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
	"github.com/ephor-dev/ephor/internal/autogen"
)

// The texts of the condition Ready; tests and users compare them.
const (
	messageReady    = "Ready"
	messageNotReady = "Not Ready"
)

// Desired is the status that a ClusterPolicy or Policy should have. notReady is why it is not served, nil when it is.
// Conditions of other types and what other controllers report are kept. The error means that the object is not a policy
// that can be read.
func Desired(object *unstructured.Unstructured, notReady error, now time.Time) (kyvernov1.PolicyStatus, error) {
	var p kyvernov1.ClusterPolicy // a Policy has the same spec and status
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &p); err != nil {
		return kyvernov1.PolicyStatus{}, fmt.Errorf("read %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	s := *p.Status.DeepCopy()
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
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, kyvernov1.PolicyReasonFailed, messageNotReady
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

// Writer stores statuses.
type Writer struct{ Client client.Client }

// Write stores the status unless the object, as it was read, already has it. A policy that is gone or was changed in
// the meantime is no error: it is looked at again when that news arrives.
func (w *Writer) Write(ctx context.Context, object *unstructured.Unstructured, want kyvernov1.PolicyStatus) (written bool, err error) {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&want)
	if err != nil {
		return false, err
	}
	have, _, _ := unstructured.NestedMap(object.Object, "status")
	if equality.Semantic.DeepEqual(have, tree) {
		return false, nil
	}
	// A merge patch keeps what it does not name, so what has gone is named as null.
	for key := range have {
		if _, ok := tree[key]; !ok {
			tree[key] = nil
		}
	}
	if a, ok := tree["autogen"].(map[string]any); ok && a["rules"] == nil {
		a["rules"] = nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": object.GetResourceVersion()},
		"status":   tree,
	})
	if err != nil {
		return false, err
	}
	target := &unstructured.Unstructured{}
	target.SetGroupVersionKind(object.GroupVersionKind())
	target.SetNamespace(object.GetNamespace())
	target.SetName(object.GetName())
	err = w.Client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, patch))
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false, nil
	}
	return false, fmt.Errorf("write the status of %s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
}
