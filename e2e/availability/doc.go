// Package availability holds the tests of what happens when something goes away: a leader, a lease, a certificate, the
// webhooks, all replicas. A real API server calls our processes throughout.
//
// It holds no code of the product.
package availability
