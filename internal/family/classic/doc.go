// Package classic is the policy family of kyverno.io: ClusterPolicy and Policy, in every served version.
//
//	p, diags := classic.Decode(object)     // unknown fields and wrong types, all of them
//	diags.Add(classic.Check(p)...)         // the author's mistakes
//	program := classic.Compile(p)          // always a Program; Program.Diags holds what Compile found
//
// Decode brings every version to one hub type. Check looks at the policy as a whole and at what one part forbids
// another; the mistakes inside a match block, a context entry, a pattern or a condition are found by the package that
// compiles it, so that accepting a policy and running it cannot disagree. Compile expands the rules for pod
// controllers and joins the settings.
//
// It does not evaluate anything, and knows neither exceptions nor the cluster: kinds that do not exist are no mistake
// here.
//
// Floor 2: imports strict, autogen, rule and what they import.
package classic
