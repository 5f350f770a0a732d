// Package fixed is the world of the command line: what it was given, and nothing else.
//
//	root := fixed.New(fixed.Values{NamespaceLabels: map[string]map[string]string{"team-a": {"tier": "gold"}}})
//	outcome := engine.Eval(ctx, engine.Input{Root: root, …})
//
// There is no cluster behind it and no network: what was not given is "not available here", which a rule that asks for
// it reports as an error. The one exception are namespace labels: Kyverno's command line evaluates an object of a
// namespace without a description as if the namespace had no labels, and so does this (see docs/migrating/differences.md).
//
// With Values.Objects there is a made-up cluster that holds the given resources: context entries read them by path, and
// GlobalContextEntries among them are filled from the others.
//
// Floor 4: imports world and leaves.
package fixed
