// Package template substitutes variables, `{{ JMESPath }}`, in JSON values.
//
//	t := template.Compile(map[string]any{"name": "{{ request.object.metadata.name }}-copy", "n": 1.0}, template.Options{})
//	v, err := t.Eval(env, scope)       // {"name": "web-copy", "n": 1}
//
// Compile splits every string once into literal text and compiled expressions; evaluation parses nothing, shares the parts
// without variables and copies only what changes. Two kinds of expressions are not known in advance: the outer expression of
// nested variables (`{{ images."{{ element.name }}".tag }}`) and variables in values that the author wrote. They are compiled
// late, with a small bounded cache. All other values are data: they are never evaluated, and inside an expression they are
// content (jmespath.Quoting). CompileDocument and CompileText prevent data from becoming syntax of the document or path around
// them.
//
// The package deliberately does not know anchors and operators of patterns, or `$( )` references (package pattern); which
// variables a policy may use where (policy validation); or that on DELETE `request.object` means the old object (package policy
// puts it there).
//
// Floor 0 (leaf): imports diag, budget, compilecost, compilecost, value, jmespath.
package template
