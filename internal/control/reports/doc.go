// Package reports connects the controllers that find results with the one that merges them into reports.
//
//	s, err := reports.NewSending(config, telemetry, source, max, flags) // in admission and background: results, to the reports controller
//	m := &reports.Merging{…}                                             // in the reports controller: which results it accepts, and from whom
//
// Packages ephemeral and reports do the work.
//
// Floor 8: imports the floors below.
package reports
