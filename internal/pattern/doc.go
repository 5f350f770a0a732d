// Package pattern implements the validate pattern language: maps, lists, anchors, operators, quantities and wildcards.
//
//	p, diags := pattern.Compile(map[string]any{"spec": map[string]any{"=(hostPID)": "false"}}, "spec.rules[0].validate.pattern", nil)
//	v, err := p.Match(env, root, pod)
//	if v.Status == pattern.Fail {
//		fmt.Println(v.Path, v.Message) // /spec/hostPID/ resource value 'true' does not match 'false' at path /spec/hostPID/
//	}
//
// A pattern is compiled once into a tree in which keys are already sorted into their phases, anchors are parsed and scalars are
// comparisons with parsed bounds. Match walks that tree at most twice: the first walk only decides and allocates nothing; the
// second, for a resource that does not match, builds the path and the message.
//
// The package composes no rule messages (rule does) and does not handle matching, preconditions or mutation, whose overlays
// only share the notation of anchors.
//
// Floor 0 (leaf): above template, measure, wildcard and value.
package pattern
