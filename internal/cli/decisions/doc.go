// Package decisions has the commands that read what admission decided: `ephor decisions` and `ephor why`.
//
//	kubectl logs deploy/kyverno-admission-controller | ephor decisions -f - --verdict refused --since 24h
//
// They read the JSON lines that package decision writes; what a reader may read is decided by the rights on the file or the log.
//
// Floor 8: imports decision and cli/terminal.
package decisions
