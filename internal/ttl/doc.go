// Package ttl deletes objects when the time in their label cleanup.kyverno.io/ttl is over.
//
//	m := ttl.New(options)
//	m.Run(ctx)           // in every replica; Share tells each its part
//
// Every resource that the process may watch, list and delete is watched, as metadata, for objects with the label. Served resources and
// rights are checked again at an interval. An object is deleted with the UID and resourceVersion of the decision.
//
// It does not read the label's formats (schedule does) and answers no reviews (admission does).
//
// Floor 7: imports schedule, event, and cleanup for the exact deletion.
package ttl
