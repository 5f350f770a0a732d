// Package decisions implements the commands that read recorded admission decisions: `ephor decisions` and `ephor why`.
//
//	kubectl logs deploy/kyverno-admission-controller | ephor decisions -f - --verdict refused --since 24h
//
// They read the records that package decision and its stores write. The permissions of the file or log determine what a user
// can read.
//
// Floor 8: imports decision, decision/store, impact, cli/load, cli/offline, cli/terminal and cli/testrun.
package decisions
