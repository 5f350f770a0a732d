// Package load sends reviews to webhooks: reviews of a Pod as in production, over many connections, to a process whose
// CPU time and memory it measures, and for comparison to a webhook that does nothing.
//
//	noop, stop, err := load.StartNoop(root, dir, 8)
//	r, err := noop.Round(8000, load.Question{Body: load.Review(load.Pod("shop", false)), Allowed: true})
//
// `make bench` and `make soak` measure with it. It sets no targets.
package load
