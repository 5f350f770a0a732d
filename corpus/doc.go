// Package corpus is one set of cases that runs through every way into Ephor: the engine, the HTTP handler that the API
// server calls, and the command line. They have to say the same; e2e runs the cases of built-in kinds through a live API
// server as well.
//
//	go test ./corpus                       # all cases, three runners
//	go test ./corpus -update               # rewrite the want sections, then read the diff
//
// A case is a txtar file below testdata: a comment in prose (which behaviour it shows), policy.yaml and resource.yaml
// with one or more documents, optionally old.yaml (the object before an update, of a case with one resource),
// namespaces.yaml (namespace → labels) and world.yaml (what else is in the cluster), then want. The engine makes
// `want`: one line for each result, for each object that was changed, and for the verdict of admission.
//
// Numbers: in a cluster they are decoded to int64 and float64, by the command line to float64 alone, as Kyverno does.
// Cases in which that shows have a second section, want.float; the test prints how many they are.
//
// The cases of internal/rule/testdata run here too, without a want of their own: they are only compared. The package does
// not test how a feature behaves in detail; the tests beside the code do.
//
// Beside the floors: tests, and what e2e shares with them.
package corpus
