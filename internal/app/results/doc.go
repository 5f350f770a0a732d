// Package results reports the results of evaluations as events and as EphemeralReports.
//
//	q, err := results.NewEvents(config, flags, settings, metrics, log)
//	s, err := results.NewSending(results.SendingOptions{…})     // results, to the reports controller
//
// Packages event, ephemeral and status decide what is written. This package provides them with separate clients, so that reporting does
// not delay other requests.
//
// Floor 8: imports the floors below.
package results
