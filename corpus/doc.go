// Package corpus is one set of cases that runs through every way into Ephor: the engine, the HTTP handler that the API
// server calls, and the command line. Their results must be equal; e2e also runs the cases of built-in kinds through a
// live API server.
//
//	go test ./corpus                       # all cases, three runners
//	go test ./corpus -update               # rewrite the want sections, then read the diff
//
// A case is a txtar file below testdata: a comment that says which behaviour it shows, policy.yaml and resource.yaml with
// one or more documents, optionally old.yaml (the object before an update, in a case with one resource), namespaces.yaml
// (namespace → labels) and world.yaml (other objects in the cluster), then want. The engine writes `want`: one line for
// each result, for each object that was changed, and for the verdict of admission.
//
// Numbers: in a cluster they are decoded to int64 and float64, on the command line to float64 only, as in Kyverno. Cases
// in which that makes a difference have a second section, want.float; the test prints their number.
//
// behaviours.tsv lists the behaviours of the classic kinds: one case of ours each, with its sentence, and the tests of Kyverno's public suite
// that it replaces. Every test of that suite about classic kinds has a case.
//
// The cases of internal/rule/testdata run here too, without an expected result: they are only compared. The package does
// not test the details of a feature; the tests beside the code do.
//
// Beside the floors: tests, and what e2e shares with them.
package corpus
