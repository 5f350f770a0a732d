// Package globals keeps the data of GlobalContextEntries, and writes to their status whether they have any.
//
//	g, err := globals.New(ctx, config, limits, api, services, events, log)
//	controller.Row{Name: "global-context", Owner: controller.Leader, Sources: []controller.Source{g.Changed}, Reconcile: …(g.Reconcile(writer))}
//
// How the data are read and bounded is the business of package globalctx.
//
// Floor 8: imports the floors below.
package globals
