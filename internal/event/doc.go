// Package event turns results into Kubernetes events (events.k8s.io/v1) and writes them.
//
//	queue := event.New(event.Options{Writer: client, Instance: "node-1", Capacity: 1000, Settings: store.Load})
//	go queue.Run(ctx)
//	for _, e := range event.From(req, outcome.Results, event.Admission(blocked)) {
//		queue.Record(e)
//	}
//
// From is pure: which events a request gives, with the reasons, actions and notes of the policy language
// The Queue is bounded in number and in time: what does not fit is dropped and counted, never waited for, since nothing
// may be slower because an event is written. An event that was just written is not written again when it repeats:
// its series counts, one write for many.
//
// The package decides nothing about policies, and keeps no event once it is written. It stands on floor 6.
package event
