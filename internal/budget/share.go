//go:build !quarter

package budget

// Share divides all limits. With the build tag quarter, it shows that policies need at most a quarter of them:
//
//	go test -tags=quarter ./conformance ./examples/...
const Share = 1
