// Package trust attacks Ephor on a real API server: one file for each row of docs/security/threat-model.md that an API server is
// part of, t⟨number⟩_⟨what⟩_test.go.
//
// mallory holds the built-in ClusterRole admin in the namespace mallory, and nothing else. A test does as mallory what
// mallory may do, and checks that nothing outside of that namespace changed, and that nothing was revealed.
package trust
