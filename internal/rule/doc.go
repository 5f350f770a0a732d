// Package rule compiles the rules of a policy: one file per rule kind declares the API field that it owns, its
// documentation, and how to compile it.
//
//	r, diags := rule.Compile(&authored, rule.Input{Path: "spec.rules[0]", Action: plan})
//	ok, err := r.Match(ctx, request)
//	yield := r.Eval(&policy.Call{Env: env, Request: request, Program: program, Rule: r})
//
// All kinds share prelude.go: context entries are registered, preconditions are evaluated, then the kind's handler runs. Messages are
// Kyverno's; parts that do not depend on the request are computed at compile time, so that a rule that passes writes no text.
//
// Most kinds work in one stage. A verifyImages rule takes part in two, and the Call reports which one is evaluated.
//
// The package does not know effective actions or the treatment of earlier violations (engine), does not expand rules for Pod controllers
// (autogen), and sends no requests: signatures of images are verified behind world.Signatures.
//
// Floor 2: imports imageverify, scope, match, loader and what they import.
package rule
