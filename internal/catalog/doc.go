// Package catalog holds the compiled Programs and selects those that evaluate a request.
//
//	c := catalog.New()
//	c.Set(program)                                    // a policy was created or changed
//	c.Delete(catalog.ID{Kind: "ClusterPolicy", Name: "old"})
//	c.SetException(exception)                         // joined to the rules that it names
//	selections := c.Snapshot().For(request, catalog.Route{Stages: policy.StageValidate})
//
// A Snapshot is immutable: its holder sees the same Programs for as long as needed, while the Catalog replaces it with the next one. A
// change rebuilds only the parts of the index that the changed policy affects. The command line uses the static form, NewStatic, after
// Join.
//
// The package compiles nothing, reads no cluster and does not batch changes: a caller with many changes passes them to one call of Apply.
// It does not evaluate (engine does), and compares Programs by identity and generation, not by content.
//
// Floor 5: imports floors 0–4.
package catalog
