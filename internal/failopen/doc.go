// Package failopen lets webhooks that fail closed fail open while no replica answers them, and makes them fail closed again.
//
//	watch := &failopen.Watch{Client: c, Lease: key, Annotation: "kyverno.io/last-request-time", Grace: time.Minute, Log: log}
//	next, err := watch.Once(ctx)                 // in one replica, of a process other than the one that answers
//	failopen.Preserve(stored, want)              // called by the owner of the configurations while reviews do not arrive
//
// Every answered heartbeat changes a stamp on the lease. If the stamp does not change for the grace period, failurePolicy Fail of the
// resource webhooks becomes Ignore, and an annotation records which webhooks changed. When the stamp changes again, they return to
// Fail. This process alone measures the time, and only while it reaches the API server, so neither clock differences nor an outage of
// the API server count as silence.
//
// It is off unless the operator sets --deadManSeconds, to let the cluster go on without its policies.
//
// Floor 7: imports event and webhookconf.
package failopen
