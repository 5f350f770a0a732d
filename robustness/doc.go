// Package robustness contains the tests that attack the whole engine, from the compiler to the answer: policies and
// objects that are written to cost time and memory, and lessons from the security history of other engines.
//
//	go test -run Bombs -v ./robustness
//
// prints the cost of each bomb. The bombs run in a separate process with GOMEMLIMIT=256MiB, so that a bomb that is not
// defused kills that process, not the test. The names of tests of lessons contain the lesson's number in
// docs/security/threat-model.md. The package has no code of its own and does not measure speed: the benchmarks beside
// the code do.
//
// Beside the floors: tests only.
package robustness
