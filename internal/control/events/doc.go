// Package events writes events about the results of evaluations.
//
//	q, err := events.New(config, flags, settings, telemetry)
//	events.Record(q, request, results, event.Context{…})
//
// Package event decides what is written. The queue has a client of its own, so that events do not delay other requests.
//
// Floor 8: imports the floors below.
package events
