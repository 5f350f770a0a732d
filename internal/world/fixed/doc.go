// Package fixed is the world of the command line: it contains only the given data.
//
//	root := fixed.New(fixed.Values{NamespaceLabels: map[string]map[string]string{"team-a": {"tier": "gold"}}})
//	outcome := engine.Eval(ctx, engine.Input{Root: root, …})
//
// It has no cluster and no network: missing data is "not available here", which a rule that needs it reports as an error. Namespace
// labels are the only exception: as on Kyverno's command line, a namespace without a description has no labels (see
// docs/migrating/differences.md).
//
// With Values.Objects there is a simulated cluster with the given resources: context entries read them by path, and
// GlobalContextEntries among them get their data from the others.
//
// Floor 4: imports world and leaves.
package fixed
