// Package simulation runs whole processes of Ephor on virtual time against an API server in memory (package apiserver): seeded plans of user
// actions and faults, and checks of what must hold afterwards.
//
//	go test ./internal/simulation -seeds 200            # what the gate runs
//	go test ./internal/simulation -seed 17 -trace       # one seed again, with its requests; a failing plan is shrunk
//
// The plan of a seed is always the same, the order of goroutines is not. The package consists of tests; docs/contributing/simulation.md says what
// they find and what they cannot see.
//
// Floor 9: tests only, on top of internal/app.
package simulation
