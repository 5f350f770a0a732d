// Package rule compiles the rules of a policy: one file per rule kind declares the API field that it owns, its
// documentation, and how to compile it.
//
//	r, diags := rule.Compile(&authored, rule.Input{Path: "spec.rules[0]", Action: plan})
//	ok, err := r.Match(ctx, request)
//	yield := r.Eval(&policy.Call{Env: env, Request: request, Program: program, Rule: r})
//
// What every kind shares stands once in prelude.go: context entries are registered, preconditions are evaluated, then the
// kind's handler runs. Messages are Kyverno's; what does not depend on the
// request is put together at compile time, so that a rule that passes writes no text.
//
// Most kinds do their work in one stage. A verifyImages rule takes part in two, and asks the Call which one is evaluated.
//
// The package does not know effective actions or the treatment of violations that existed before (engine), does not expand
// rules for pod controllers (autogen), and sends no requests: signatures of images are verified behind world.Signatures.
//
// Floor 2: imports imageverify, scope, match, loader and what they import.
package rule
