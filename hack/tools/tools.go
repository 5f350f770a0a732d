// Package tools pins the programs that build and check Ephor, in a separate module, so that their dependencies never reach the
// main module.
//
//	controller-gen   deep copies of the API types           go build -C hack/tools -o … sigs.k8s.io/controller-tools/cmd/controller-gen
//	crdgen           CRDs (controller-gen and two markers)  go build -C hack/tools -o … ./crdgen
//	staticcheck      lint                                   go build -C hack/tools -o … honnef.co/go/tools/cmd/staticcheck
//
// The versions are in go.mod, the first and the last as `tool` directives; from the repository's root they also run as `go tool
// -modfile=hack/tools/go.mod staticcheck ./...`. Change a version with `go get -C hack/tools -tool ⟨package⟩@⟨version⟩`, then run
// hack/generate.sh.
package tools
