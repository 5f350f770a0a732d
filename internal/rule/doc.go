// Package rule compiles the rules of a policy. For each rule kind, one file declares its API field, its documentation, and how to
// compile it.
//
//	r, diags := rule.Compile(&authored, rule.Input{Path: "spec.rules[0]", Action: plan})
//	ok, err := r.Match(ctx, request)
//	yield := r.Eval(&policy.Call{Env: env, Request: request, Program: program, Rule: r})
//
// All kinds share prelude.go, which registers context entries, evaluates preconditions, and then runs the kind's handler. Messages are
// those of Kyverno. Parts that do not depend on the request are computed at compile time, so that a rule that passes formats no text.
//
// Most kinds have one stage. A verifyImages rule has two, and the Call tells which one is evaluated.
//
// The package does not determine effective actions or handle earlier violations (engine does), does not expand rules for Pod controllers
// (autogen does), and sends no requests: image signatures are verified through world.Signatures.
//
// Floor 2: imports imageverify, scope, match, loader and what they import.
package rule
