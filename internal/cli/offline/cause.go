package offline

import (
	"cmp"
	"errors"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/strict"
	"ephor.invalid/ephor/internal/template"
	"ephor.invalid/ephor/internal/world/fixed"
)

// Explain returns what is wrong where a rule ended in an error, and how to correct it. The message of the result names every step that
// led to the error, as Kyverno's does; the text names the variable and the cause, if they are known. hint may be empty.
func Explain(message string, cause error) (text, hint string) {
	var absent *fixed.NotFoundError
	var key *jmespath.UnknownKeyError
	var evaluation *env.EvaluationError
	var function *jmespath.UnknownFunctionError
	variable, unresolved := "", (*template.ResolveError)(nil)
	if errors.As(cause, &unresolved) {
		variable = "{{ " + unresolved.Variable + " }} has no value: "
	}
	switch {
	case errors.As(cause, &absent):
		return variable + absent.Error(), "give it with --resource, or the values of the rule with --values-file"
	case jmespath.IsMisfit(cause):
		return variable + jmespath.Plain(cause), "test the value in preconditions, or give a default: {{ value || 'default' }}"
	case errors.As(cause, &key):
		return variable + key.Error(), "test it in preconditions, or give a default: {{ value || 'default' }}"
	case errors.As(cause, &function):
		if near := strict.Nearest(function.Name, functionNames()); near != "" {
			hint = "did you mean " + near + "?"
		}
		return variable + "there is no function " + function.Name, cmp.Or(hint, "`ephor jp function` lists all functions")
	case errors.As(cause, &evaluation):
		return message, "in the expression `" + evaluation.Expression + "`: a missing field or a value of another type is an error; test fields with has(), or read them with .? and orValue()"
	case unresolved != nil:
		return variable + unresolved.Err.Error(), ""
	}
	return message, ""
}

func functionNames() (names []string) {
	for _, f := range jmespath.Functions() {
		names = append(names, f.Name)
	}
	return names
}
