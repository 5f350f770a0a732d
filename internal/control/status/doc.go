// Package status writes to the status of policies and exceptions what evaluations found: budgets that were exceeded, exceptions that cannot
// be evaluated, and kinds that scans leave out. Evaluations leave notes; a row of every replica writes them.
//
//	over := status.NewExceeded(policies, client, log)
//	rows := []controller.Row{over.Row()}
//
// What a status contains is the business of the package internal/status.
//
// Floor 8: imports the floors below.
package status
