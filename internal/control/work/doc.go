// Package work connects a process with its UpdateRequests: the writer of admission, the queue of the background controller, and what both leave
// behind when they end.
//
//	writer, err := work.NewWriter(…)           // admission
//	watch := work.Watch(worker, metrics)        // background
//	defer work.LeavePending(…)                 // both
//
// Packages updaterequest/enqueue and updaterequest/execute do the work.
//
// Floor 8: imports the floors below.
package work
