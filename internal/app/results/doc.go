// Package results passes the results of evaluations to where they are reported: events, EphemeralReports, and the status of policies whose
// budget was exceeded.
//
//	q, err := results.NewEvents(config, flags, settings, metrics, log)
//	s, err := results.NewSending(results.SendingOptions{…})     // results, to the reports controller
//	e := results.NewExceeded(policies, client, log)             // budgets, to the status of policies
//
// Packages event, ephemeral and status decide what is written; this one gives them clients of their own, so that reporting delays no
// other request.
//
// Floor 8: imports the floors below.
package results
