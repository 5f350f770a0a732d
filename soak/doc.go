// Package soak holds the tests that take minutes: load, faults, and everything at once, on real API servers.
//
//	make soak                    # all of them
//	make soak PARTS="load kills" # some of them (main_test.go has the names); SHORT=1 tries them out
//
// Each is bounded in time and prints its figures with their targets, and ok or MISS. Without EPHOR_SOAK in the environment nothing runs, so
// `go test ./...` stays fast. The package holds no code of the product.
package soak
