// Package ttl deletes objects when the time in their label cleanup.kyverno.io/ttl is over.
//
//	m := ttl.New(options)
//	rows := m.Rows()      // of every replica; Share assigns each one its part
//
// It watches the metadata of objects with the label, for every resource that the process may watch, list and delete. It checks served
// resources and rights again at an interval. It deletes an object with the UID and resourceVersion on which the decision was based.
//
// It does not parse the label (schedule does) and answers no reviews (admission does).
//
// Floor 7: imports schedule, event, and cleanup for the exact deletion.
package ttl
