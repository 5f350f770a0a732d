// Package preflight holds the commands for a switch from Kyverno and back against a real API server: what `ephor preflight` finds and
// corrects, and what `ephor uninstall` leaves.
//
//	go test ./e2e/preflight/
//
// It holds no code of the product.
package preflight
