// Package compile compiles objects to Programs. It holds the explicit list of policy families.
//
//	programs, diags := compile.Compile(objects)
//	for _, d := range diags.Errors() { fmt.Fprintln(os.Stderr, d) }   // policy.yaml:9: spec.rules[0].validate: …
//
// The review and the evaluation of a policy use the same function. Objects of no family are reported, not dropped; a caller that mixes
// policies with other objects calls Owns first. A policy with companions, such as bindings, is compiled with them:
//
//	var bindings compile.Companions
//	diags := bindings.Add(binding)
//	program, diags := compile.With(object, bindings.Of(compile.IDOf(object)), family.Options{})
//
// It does not read files and keeps no state.
//
// Floor 3: imports the families.
package compile
