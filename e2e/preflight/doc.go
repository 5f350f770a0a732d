// Package preflight tests the commands for a switch from Kyverno and back on a real API server: the findings and corrections of `ephor
// preflight`, and the objects that `ephor uninstall` leaves.
//
//	go test ./e2e/preflight/
//
// It contains no code of the product.
package preflight
