// Package event turns results into Kubernetes events (events.k8s.io/v1) and writes them.
//
//	queue := event.New(event.Options{Writer: client, Instance: "node-1", Capacity: 1000, Settings: store.Load})
//	go queue.Run(ctx)
//	for _, e := range event.From(req, outcome.Results, event.Admission(blocked)) {
//		queue.Record(e)
//	}
//
// From is pure: it returns the events of a request, with the reasons, actions and notes of Kyverno. The Queue is bounded in number and in
// time. It drops and counts events that exceed the bounds, since no other work may wait for them. An event that soon repeats is not
// written again: its series counts the repetitions, with one write for many.
//
// The package makes no decisions about policies, and keeps no event after it is written. Floor 6.
package event
