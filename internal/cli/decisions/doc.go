// Package decisions has the commands that read what admission decided: `ephor decisions` and `ephor why`.
//
//	kubectl logs deploy/kyverno-admission-controller | ephor decisions -f - --verdict refused --since 24h
//
// They read what package decision and its stores write; what a reader may read is decided by the rights on the file or the log.
//
// Floor 8: imports decision, decision/store, impact, cli/load, cli/offline, cli/terminal and cli/testrun.
package decisions
