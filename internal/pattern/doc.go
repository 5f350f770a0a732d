// Package pattern is the validate pattern language: maps, lists, anchors, operators, quantities and wildcards.
//
//	p, diags := pattern.Compile(map[string]any{"spec": map[string]any{"=(hostPID)": "false"}}, "spec.rules[0].validate.pattern")
//	v, err := p.Match(env, root, pod)
//	if v.Status == pattern.Fail {
//		fmt.Println(v.Path, v.Message) // /spec/hostPID/ resource value 'true' does not match 'false' at path /spec/hostPID/
//	}
//
// A pattern is compiled once into a tree in which keys are already ordered into their phases, anchors are parsed and
// scalars have become comparisons with parsed bounds. Match walks that tree twice at most: the first walk only decides
// and allocates nothing; the second, taken when the resource does not fit, builds the path and the words.
//
// The package composes no rule messages (rule does) and knows nothing of matching, preconditions or mutation, whose
// overlays merely share the anchors' spelling.
//
// Floor 0 (leaf): above template, measure, wildcard and value.
package pattern
