package convert

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/kinds"
	"ephor.invalid/ephor/internal/match"
)

// parameters are the objects that the expressions of a rule read as params; the converted policy reads them into the variable params.
type parameters struct {
	read     expr // the objects, or the object, that is read; zero without parameters
	several  bool // read is a list of objects
	required bool // an object that does not exist is a violation
}

// parameters converts paramKind and paramRef.
func (c *converter) parameters(v *kyvernov1.CEL, path string) (out parameters) {
	if v.ParamKind == nil || v.ParamRef == nil {
		return out
	}
	plural, ok := c.plural(v.ParamKind.APIVersion, v.ParamKind.Kind, path+".paramKind")
	if !ok {
		return out
	}
	ref := v.ParamRef
	namespace := text(ref.Namespace)
	t, err := match.ParseKind(v.ParamKind.APIVersion + "/" + v.ParamKind.Kind)
	if err == nil && ref.Namespace == "" && !kinds.ClusterScoped(v.ParamKind.APIVersion, t.Kind) {
		namespace = "request.?namespace.orValue('')"
	}
	arguments := []string{text(v.ParamKind.APIVersion), text(plural), namespace}
	if c.policy.Kind == "Policy" {
		arguments = arguments[:2]
	}
	out.required = ref.ParameterNotFoundAction == nil || *ref.ParameterNotFoundAction == admissionregistrationv1.DenyAction
	if ref.Name != "" {
		out.read = member("dyn(resource.get(" + strings.Join(append(arguments, text(ref.Name)), ", ") + "))")
		return out
	}
	out.several = true
	kept := yes
	if ref.Selector != nil {
		kept = c.selector(ref.Selector, member("item.metadata"), path+".paramRef.selector")
	}
	out.read = member("dyn(resource.list(" + strings.Join(arguments, ", ") + ")).items")
	if kept != yes {
		out.read = out.read.macro("filter", "item", kept)
	}
	if len(v.Variables) > 0 || len(v.AuditAnnotations) > 0 {
		c.refuse(path+".paramRef", "several parameters are not converted beside variables and audit annotations", "name the parameter")
	}
	return out
}

// variables returns the variable that holds the parameters.
func (p parameters) variables() []any {
	if p.read == (expr{}) {
		return nil
	}
	return []any{map[string]any{"name": "params", "expression": p.read.text}}
}

// validation returns a validation that reads the parameters from the variable.
func (p parameters) validation(one map[string]any) map[string]any {
	if p.read == (expr{}) {
		return one
	}
	source, _ := one["expression"].(string)
	holds := expr{source, bindsTernary}
	if p.several {
		all := member("variables.params")
		holds = all.macro("all", "params", holds)
		if p.required {
			holds = and(comparison("size(variables.params) > 0"), holds)
		}
		one["expression"] = holds.text
		return one
	}
	one = p.renamed(p.renamed(one, "expression"), "messageExpression")
	source, _ = one["expression"].(string)
	holds = expr{source, bindsTernary}
	if p.required {
		holds = and(comparison("variables.params != null"), holds)
	} else {
		holds = or(comparison("variables.params == null"), holds)
	}
	one["expression"] = holds.text
	return one
}

// renamed returns a document in whose expression the name params is that of the variable.
func (p parameters) renamed(one map[string]any, field string) map[string]any {
	source, ok := one[field].(string)
	if !ok || p.read == (expr{}) || p.several {
		return one
	}
	one[field] = inPlaceOfParams(source, "variables.params")
	return one
}

// inPlaceOfParams returns an expression with another one in place of the name params.
func inPlaceOfParams(source, other string) string {
	var out strings.Builder
	quote := byte(0)
	for i := 0; i < len(source); i++ {
		c := source[i]
		switch {
		case quote != 0 && c == '\\' && i+1 < len(source):
			out.WriteByte(c)
			i++
			c = source[i]
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case c == quote:
			quote = 0
		case quote == 0 && strings.HasPrefix(source[i:], "params") && (i == 0 || !inName(source[i-1])) && (i+6 == len(source) || !inName(source[i+6]) || source[i+6] == '.'):
			out.WriteString(other)
			i += len("params") - 1
			continue
		}
		out.WriteByte(c)
	}
	return out.String()
}

// inName reports whether a character continues a name, or selects one of its fields.
func inName(c byte) bool {
	return c == '.' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
