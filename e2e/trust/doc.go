// Package trust attacks Ephor on a real API server: one file, t⟨number⟩_⟨topic⟩_test.go, for each row of docs/security/threat-model.md that
// involves an API server.
//
// mallory has the built-in ClusterRole admin in the namespace mallory, and no other rights. Tests do what mallory is allowed to do, and
// check that nothing changes outside of that namespace, and that nothing is revealed.
package trust
