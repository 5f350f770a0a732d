// Package soak holds the tests that take minutes: load, faults, and everything at once, on real API servers.
//
//	make soak                    # all of them
//	make soak RUN=Uninstall      # those whose name matches
//
// Each is bounded in time and prints its figures with their targets, and ok or MISS. Without EPHOR_SOAK in the
// environment nothing runs, so that `go test ./...` stays quick. It holds no code of the product.
package soak
