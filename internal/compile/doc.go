// Package compile turns objects into Programs: the explicit list of policy families stands here.
//
//	programs, diags := compile.Compile(objects)
//	for _, d := range diags.Errors() { fmt.Fprintln(os.Stderr, d) }   // policy.yaml:9: spec.rules[0].validate: …
//
// Accepting a policy and running it use this one function. Objects of no family are reported, not dropped; a caller that mixes
// policies with other objects asks Owns first. A policy that has companions, such as bindings, is compiled with them:
//
//	var bindings compile.Companions
//	diags := bindings.Add(binding)
//	program, diags := compile.With(object, bindings.Of(compile.IDOf(object)), family.Options{})
//
// It does not read files and does not keep anything.
//
// Floor 3: imports the families.
package compile
