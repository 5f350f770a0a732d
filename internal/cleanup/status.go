package cleanup

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
	policystatus "ephor.invalid/ephor/internal/status"
	"ephor.invalid/ephor/internal/value"
)

// Reasons of the condition Ready.
const (
	reasonSucceeded = "Succeeded"
	reasonFailed    = "Failed"
	reasonPreview   = "Preview"
	reasonLimit     = "LimitExceeded"
)

// conditionReady reports the result of the last run.
const conditionReady = "Ready"

// runOf returns how runs of the policy's family are reported.
func runOf(u *unstructured.Unstructured) *family.Run {
	if k := compile.Kinds.Owner(u.GetAPIVersion(), u.GetKind()); k != nil && k.Run != nil {
		return k.Run
	}
	return &family.Run{}
}

// lastExecution returns when the last successful run began; the zero time if the status does not say.
func lastExecution(u *unstructured.Unstructured) time.Time {
	text, _, _ := unstructured.NestedString(u.Object, "status", "lastExecutionTime")
	t, _ := time.Parse(time.RFC3339, text) // an unreadable time is overwritten
	return t
}

// conditions returns the readable conditions in the status. The cache may be older than the conditions that this process wrote.
func (e *policyState) conditions() []metav1.Condition {
	have, _, _ := unstructured.NestedFieldNoCopy(e.object.Object, append([]string{"status"}, e.of.Conditions...)...)
	var stored struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"conditions": have}, &stored)
	for _, c := range e.written {
		if old := meta.FindStatusCondition(stored.Conditions, c.Type); old == nil {
			stored.Conditions = append(stored.Conditions, c)
		} else if !c.LastTransitionTime.Before(&old.LastTransitionTime) {
			*old = c
		}
	}
	return stored.Conditions
}

// condition returns the condition that reports the outcome.
func (out *outcome) condition() metav1.Condition {
	if out.rights != nil {
		return *out.rights
	}
	ready := metav1.Condition{Type: conditionReady, Status: metav1.ConditionTrue, Reason: out.reason, Message: out.message}
	if err := errors.Join(out.broken, out.stopped, out.failed); err != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reasonFailed, value.Message(err.Error())
		if out.stopped != nil {
			ready.Reason = reasonLimit
		}
	}
	return ready
}

// writeStatus writes the result of the run to the status. It writes the time of the run only after a success.
func (c *Controller) writeStatus(ctx context.Context, e *policyState, object *unstructured.Unstructured, out outcome, began time.Time) error {
	if out.stale || out.rights != nil && out.failed != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c.mu.Lock()
	conditions := e.conditions()
	c.mu.Unlock()
	now := out.condition()
	now.LastTransitionTime = metav1.NewTime(began)
	if !meta.SetStatusCondition(&conditions, now) && !out.done {
		return nil
	}
	status := map[string]any{}
	if err := unstructured.SetNestedField(status, tree(conditions), e.of.Conditions...); err != nil {
		return err
	}
	if e.of.Ready != nil {
		if err := unstructured.SetNestedField(status, allTrue(conditions), e.of.Ready...); err != nil {
			return err
		}
	}
	if out.done {
		status["lastExecutionTime"] = began.UTC().Format(time.RFC3339)
	}
	stored := named(object)
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(stored), stored)
	if err != nil || stored.GetUID() != object.GetUID() { // the API server does not look at a UID in the patch of a status
		return client.IgnoreNotFound(err)
	}
	// The patch has no resourceVersion: the result of the run is still true if a user edits the policy meanwhile.
	written, err := policystatus.Patch(ctx, c.Client, object, nil, status)
	if err != nil || !written { // the policy may be deleted or replaced
		return err
	}
	c.mu.Lock()
	e.written = conditions
	c.mu.Unlock()
	return nil
}

// tree returns the conditions as values of an unstructured object.
func tree(conditions []metav1.Condition) []any {
	out := make([]any, 0, len(conditions))
	for i := range conditions {
		if c, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&conditions[i]); err == nil {
			out = append(out, c)
		}
	}
	return out
}

func allTrue(conditions []metav1.Condition) bool {
	for _, c := range conditions {
		if c.Status != metav1.ConditionTrue {
			return false
		}
	}
	return true
}
