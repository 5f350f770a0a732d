// Package robustness holds the tests that attack the whole of the engine, from the compiler to the answer: policies and
// objects that are written to cost time and memory, and the lessons of other engines' security history.
//
//	go test -run Bombs -v ./robustness
//
// prints what each bomb costs. The bombs go off in a process of their own with GOMEMLIMIT=256MiB, so that one that is
// not defused kills that process, not the test. The tests of S lessons carry the number under which the project's notes
// on the history of policy engines list them. The package has no code of its own and does not measure speed: that is
// what the benchmarks beside the code are for.
//
// Beside the floors: tests only.
package robustness
