// Package index finds, among many Programs, the rules that may match a request, by the Targets of the rules.
//
//	x := index.New(programs)
//	for _, s := range x.Lookup(request, policy.StageValidate) { … } // s.Program, s.Rules: those that may match
//
// It returns a superset of the rules that Match accepts. The cost does not depend on the number of Programs for other kinds and
// resources, nor on those that a literal name, namespace or label excludes. It also unites the fields of an object that the rules read
// (Reads), so that no other fields of a review's object need be decoded.
//
// Rules are indexed by the kind or the resource of their targets (index.go), joined for the kind and resource of a request (bucket.go),
// selected by its operation and other values that many requests share (view.go), and compared with the name, namespace and labels of one
// request (narrow.go). The package knows no policy language.
//
// Floor 2: imports policy and leaves.
package index
