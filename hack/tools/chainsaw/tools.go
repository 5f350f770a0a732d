// Package chainsaw pins the program that runs the public conformance tests on a cluster. It is a separate module from the
// other tools, because it requires a hundred and fifty modules that nothing else needs.
//
//	chainsaw   go build -C hack/tools/chainsaw -o … github.com/kyverno/chainsaw
//
// The checksum database does not know this version (the proxy does), so it was fetched once with
// GONOSUMDB=github.com/kyverno/chainsaw; since then go.sum pins it.
package chainsaw
