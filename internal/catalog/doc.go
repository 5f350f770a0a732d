// Package catalog holds the compiled Programs and answers which of them a request is for.
//
//	c := catalog.New()
//	c.Set(program)                                    // one policy came or changed
//	c.Delete(catalog.ID{Kind: "ClusterPolicy", Name: "old"})
//	c.SetException(exception)                         // joined to the rules that it names
//	selections := c.Snapshot().For(request, catalog.Route{Stages: policy.StageValidate})
//
// A Snapshot is immutable: its holder sees the same Programs for as long as needed, while the Catalog swaps in
// the next. A change rebuilds only the parts of the index that the changed policy touches. The command line uses the
// static form, NewStatic, after Join.
//
// The package compiles nothing, reads no cluster and does not gather changes: a caller that has many gives them to
// Apply at once. It does not evaluate (engine does), and Program sets are compared by identity and generation, not by
// content.
//
// Floor 5: imports floors 0–4.
package catalog
