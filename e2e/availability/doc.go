// Package availability holds the tests of what happens when something goes away: a leader, a lease, a certificate, the
// webhooks, everybody who answers. A real API server asks our processes all the while.
//
// It holds no code of the product.
package availability
