// Package decision records the decisions of admission.
//
//	feed := decision.NewFeed(decision.Options{Store: store, Keep: decision.Keep{Share: 0.01}, …})
//	feed.Put(decision.Review{Request: req, Results: results, …})  // after the answer; never blocks
//	feed.Run(ctx)                                                 // writes
//
// Put decides which reviews are kept: all that are refused, warned about, changed, violating, exempt or in error, and a share of the
// others. It stores a small struct in a bounded queue; Run makes the record from it. The schema of a Record is versioned
// (docs/operating/decisions.md). Values of Secrets are removed from messages before a record leaves the package. A Store has two methods;
// JSON lines are here, the other stores in decision/store.
//
// The lookups of rules come from the request's Tape. An answer that contains a secret is left out as a whole. The function Tape makes a tape
// from the recorded answers, which gives them again.
//
// The package evaluates nothing, and does not know the contents of policies.
//
// Floor 6: imports policy, value and world/taped.
package decision
