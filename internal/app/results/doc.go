// Package results reports the results of evaluations as events, as EphemeralReports, and in the status of policies that exceeded their
// budget.
//
//	q, err := results.NewEvents(config, flags, settings, metrics, log)
//	s, err := results.NewSending(results.SendingOptions{…})     // results, to the reports controller
//	e := results.NewExceeded(policies, client, log)             // budgets, to the status of policies
//	x := results.NewExceptionErrors(client, q, controller, metrics, log) // exceptions that cannot be evaluated, to their status
//
// Packages event, ephemeral and status decide what is written. This package provides them with separate clients, so that reporting does
// not delay other requests.
//
// Floor 8: imports the floors below.
package results
