// Package classic is the policy family of kyverno.io: ClusterPolicy and Policy, in every served version.
//
//	p, diags := classic.Decode(object)     // diags: all unknown fields and wrong types
//	diags.Add(classic.Check(p)...)         // the author's mistakes
//	program := classic.Compile(p)          // always a Program; Program.Diags holds what Compile found
//
// Decode converts every version to one hub type. Check reports mistakes that concern the policy as a whole, or a combination of parts. The
// package that compiles a match block, a context entry, a pattern or a condition reports the mistakes in it, so that review and evaluation
// cannot disagree. Compile expands the rules for Pod controllers and applies the settings.
//
// It does not evaluate anything, and uses neither exceptions nor the cluster: it does not report an unknown kind as a mistake.
//
// Floor 2: imports strict, autogen, rule and what they import.
package classic
