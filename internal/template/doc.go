// Package template substitutes variables, `{{ JMESPath }}`, in JSON values.
//
//	t := template.Compile(map[string]any{"name": "{{ request.object.metadata.name }}-copy", "n": 1.0}, template.Options{})
//	v, err := t.Eval(env, scope)       // {"name": "web-copy", "n": 1}
//
// Compile splits every string once into literal text and compiled expressions; evaluation parses nothing, shares the
// parts without variables and copies only what changes. Two things cannot be known before: the outer expression of
// nested variables (`{{ images."{{ element.name }}".tag }}`) and variables in values that the author wrote. They
// are compiled late, through a small bounded cache. All other values are data: they are never evaluated, and in an
// expression they are content (jmespath.Quoting). CompileDocument and CompileText keep data from being syntax of the
// document or path around them.
//
// The package deliberately knows neither anchors and operators of patterns, nor `$( )` references (package pattern),
// nor which variables a policy may use where (policy validation), nor that on DELETE `request.object` means the old
// object (package policy puts it there).
//
// Floor 0 (leaf): imports diag, budget, value, jmespath.
package template
