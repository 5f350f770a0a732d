// Package chainsaw pins the program that runs the public conformance tests on a cluster. It is a module of its own beside
// the other tools, because it brings a hundred and fifty modules along that nothing else needs.
//
//	chainsaw   go build -C hack/tools/chainsaw -o … github.com/kyverno/chainsaw
//
// The checksum database does not know this version (the proxy does), so it was fetched once with
// GONOSUMDB=github.com/kyverno/chainsaw; go.sum pins it since.
package chainsaw
