// Package condition evaluates conditions, which consist of key, operator and value. Preconditions, deny rules,
// exceptions, attestations and cleanup policies all use it.
//
//	set, diags := condition.Compile(map[string]any{"all": []any{map[string]any{
//		"key": "{{ request.operation }}", "operator": "AnyIn", "value": []any{"CREATE", "UPDATE"}}}}, "spec.rules[0].preconditions")
//	verdict, err := set.Eval(env, scope)     // verdict.OK, verdict.Messages
//
// An operator is one file op_⟨name⟩.go, which declares its names, its documentation and examples (run as tests), and how
// its value is prepared. A constant value is prepared once, at compile time, so that evaluating a request parses nothing
// and allocates almost nothing. Evaluation is lazy: `any` ends at the first condition that holds, `all` at the first
// that does not, and variables of later conditions are not substituted.
//
// The package does not decide what a verdict means (a deny rule fails when its conditions hold, preconditions skip when
// they do not), and adds only its own prefix to errors.
//
// Floor 0 (leaf): imports value, diag, budget, compilecost, wildcard, measure, jmespath, template.
package condition
