package status

import (
	"context"
	"time"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/policy"
)

// ExceptionStates counts the exceptions of a snapshot, and those that are pending, by their state, for metrics.
func ExceptionStates(s *catalog.Snapshot, pending int) map[string]int {
	out := map[string]int{"in_force": 0, "ends_soon": 0, "pending": pending}
	for _, e := range s.Exceptions() {
		if e.EndsSoon {
			out["ends_soon"]++
		} else {
			out["in_force"]++
		}
	}
	return out
}

// ExceptionsEnding returns the row that writes an event about each exception that ends soon, once in the life of a leader.
func ExceptionsEnding(c *catalog.Catalog, pending func() []*policy.Exception, events event.Recorder) controller.Row {
	type end struct {
		uid string
		at  time.Time
	}
	noted := map[end]bool{}
	once := func(context.Context) (time.Duration, error) {
		ending := map[end]bool{}
		for _, e := range c.Snapshot().Exceptions() {
			key := end{e.UID, e.Expires}
			if !e.EndsSoon {
				continue
			}
			if ending[key] = true; noted[key] {
				continue
			}
			events.Record(event.Event{
				Regarding: event.ExceptionReference(e), Type: event.Warning, Reason: "ExceptionEnding", Action: event.None, Controller: event.AdmissionController,
				Note: "the exception ends at " + e.Expires.UTC().Format(time.RFC3339) + "; after that its objects are not exempt",
			})
		}
		for _, e := range pending() {
			key := end{uid: "pending " + e.UID}
			if ending[key] = true; noted[key] {
				continue
			}
			note := "the exception has no effect until a user who may approve policyexceptions in its namespace approves it"
			if hasApproval(e.Source()) {
				note = "the approval is not one of this exception as it is: the exception was changed, copied or restored, or the key of the approval is gone, and it is pending again"
			}
			events.Record(event.Event{
				Regarding: event.ExceptionReference(e), Type: event.Warning, Reason: "ExceptionPending", Action: event.None, Controller: event.AdmissionController, Note: note,
			})
		}
		noted = ending
		return time.Minute, nil
	}
	return controller.Row{Name: "exceptions-ending", Owner: controller.Leader, Sources: []controller.Source{c}, Reconcile: controller.Singleton(once)}
}
