package cleanup

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/names"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Annotations of cleanup policies.
const (
	// PreviewAnnotation, if true, makes runs list the objects that they would delete.
	PreviewAnnotation = names.Domain + "cleanup-preview"
	// ClaimAnnotation records which replica began a run, and for which time of the schedule.
	ClaimAnnotation = names.Domain + "cleanup-run"
)

// Previews reports whether a policy with these annotations only lists objects. Every value except false counts as true, so that a
// misspelled value deletes nothing.
func Previews(annotations map[string]string) bool {
	v, ok := annotations[PreviewAnnotation]
	return ok && v != "false"
}

// run executes a due policy. It starts again if an exception from the policy changes before the last deletion.
func (c *Controller) run(ctx context.Context, e *policyState, object *unstructured.Unstructured) outcome {
	p := c.current(e)
	if p == nil {
		return outcome{stale: true}
	}
	switch err := c.claim(ctx, e, object); {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return outcome{stale: true}
	case err != nil:
		return outcome{failed: fmt.Errorf("claim the run: %w", err)}
	}
	plan, err := c.Executor.Plan(ctx, p)
	if err != nil {
		return outcome{failed: err}
	}
	of, failures := e.of, 0
	var later, lasting error
	lacking := false
	fail := func(f Failure, doing string) {
		if ctx.Err() != nil {
			return
		}
		failures++
		lacking = lacking || apierrors.IsForbidden(f.Err)
		c.Observer.CleanupFailed(p, f.Object.counted(of), f.Object.Namespace, f.Object.Propagation)
		note := fmt.Sprintf("failed to %s the target resource %s: %v", of.Delete, f.Object, f.Err)
		related := reference(f.Object)
		if f.Object.Name == "" {
			note, related = "failed to "+of.Delete+": "+f.Err.Error(), event.Reference{}
		}
		c.record(p, event.Event{Related: related, Reason: event.PolicyError, Action: event.None, Note: note})
		c.Log.Warn("cleanup failed", "policy", p.Key(), "doing", doing, "object", f.Object.String(), "error", f.Err)
		switch {
		case f.Later && later == nil:
			later = fmt.Errorf("%s: %w", f.Object, f.Err)
		case !f.Later && lasting == nil:
			lasting = f.Err
		}
	}
	for _, f := range plan.Failures {
		fail(f, "evaluate")
	}
	if Previews(object.GetAnnotations()) {
		text := "would delete " + Listing(plan.Delete, 20)
		c.record(p, event.Event{Type: event.Normal, Reason: event.DeletionPreview, Action: event.None, Note: text})
		return outcome{done: later == nil, failed: later, lacking: lacking, reason: reasonPreview, message: text}
	}
	if n := len(plan.Delete); c.MaxDeletions > 0 && n > c.MaxDeletions {
		err := fmt.Errorf("nothing was deleted: the run would delete %d objects, more than --maxDeletionsPerRun=%d", n, c.MaxDeletions)
		c.record(p, event.Event{Type: event.Warning, Reason: event.DeletionLimit, Action: event.None, Note: err.Error()})
		c.Observer.CleanupStopped(p)
		c.Log.Warn("a cleanup run was stopped", "policy", p.Key(), "deletions", n, "limit", c.MaxDeletions)
		return outcome{stopped: err}
	}
	deleted := 0
	for _, o := range plan.Delete {
		if err := ctx.Err(); err != nil {
			return outcome{failed: err}
		}
		if !sameExceptions(p, c.current(e)) {
			c.Log.Info("a run is planned again, since an exception from the policy has changed", "policy", p.Key(), "deleted", deleted)
			return outcome{stale: true}
		}
		gone, err := c.Executor.Delete(ctx, p, o)
		switch {
		case err != nil:
			fail(Failure{Object: o, Err: err, Later: true}, "delete")
		case gone:
			deleted++
			c.Observer.CleanupDeleted(p, o.counted(of), o.Namespace, o.Propagation)
			c.record(p, event.Event{
				Related: reference(o), Reason: event.PolicyApplied, Action: event.ResourceCleanedUp,
				Note: "successfully " + of.Deleted + " the target resource " + o.String(),
			})
		}
	}
	c.Log.Info("cleanup policy was executed", "policy", p.Key(), "looked", plan.Looked, "deleted", deleted, "failures", failures)
	if later != nil {
		return outcome{failed: later, lacking: lacking}
	}
	message := "deleted " + count(deleted)
	if lasting != nil {
		message = value.Message(message + "; " + lasting.Error())
	}
	return outcome{done: true, lacking: lacking, reason: reasonSucceeded, message: message}
}

// current returns the policy of e with its exceptions.
func (c *Controller) current(e *policyState) *policy.Program {
	if c.Current == nil {
		return e.program
	}
	return c.Current(e.program)
}

// sameExceptions reports whether two Programs of a policy have the same exceptions. The second is nil for a deleted policy. Comparing
// Programs is not sufficient, since the claim at the start of a run creates a new Program.
func sameExceptions(a, b *policy.Program) bool {
	return b != nil && slices.EqualFunc(a.Rules, b.Rules, func(a, b *policy.Rule) bool { return slices.Equal(a.Exceptions, b.Exceptions) })
}

// claim records on the policy that the run begins. The write fails if the policy changed since it was read, so a changed or deleted policy
// deletes nothing, and only one of two replicas begins the run.
func (c *Controller) claim(ctx context.Context, e *policyState, object *unstructured.Unstructured) error {
	c.mu.Lock()
	due := c.due(e)
	c.mu.Unlock()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion(),
		"annotations": map[string]any{ClaimAnnotation: due.UTC().Format(time.RFC3339) + " " + c.Identity},
	}})
	if err != nil {
		return err
	}
	return c.Client.Patch(ctx, named(object), client.RawPatch(types.MergePatchType, patch))
}

func named(object *unstructured.Unstructured) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(object.GroupVersionKind())
	u.SetNamespace(object.GetNamespace())
	u.SetName(object.GetName())
	return u
}

func (c *Controller) record(p *policy.Program, e event.Event) {
	e.Regarding, e.Controller = event.PolicyReference(p), event.CleanupController
	c.Events.Record(e)
}

func reference(o Object) event.Reference {
	return event.Reference{APIVersion: o.Kind.GroupVersion().String(), Kind: o.Kind.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID}
}

func count(n int) string {
	if n == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", n)
}

// Listing returns a text with the number of objects and the names of the first few.
func Listing(objects []Object, most int) string {
	var b strings.Builder
	b.WriteString(count(len(objects)))
	for i, o := range objects {
		switch {
		case i == most:
			fmt.Fprintf(&b, " and %d more", len(objects)-most)
			return b.String()
		case i == 0:
			b.WriteString(": ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(o.String())
	}
	return b.String()
}
