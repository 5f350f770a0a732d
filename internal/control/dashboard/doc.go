// Package dashboard serves the dashboard in a process: flags, clients, certificate and rows.
//
//	rows, err := f.Rows(config, telemetry, dashboard.Options{…})
//
// Package dashboard of the floor below has the pages.
//
// Floor 8: imports the floors below.
package dashboard
