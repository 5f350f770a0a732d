// Package load asks webhooks: reviews of a Pod as it is in production, over many connections, against a process whose CPU
// time and memory are read, beside a webhook that does nothing.
//
//	noop, stop, err := load.StartNoop(root, dir, 8)
//	r, err := noop.Round(8000, load.Question{Body: load.Review(load.Pod("shop", false)), Allowed: true})
//
// `make bench` and `make soak` measure with it. It sets no targets.
package load
