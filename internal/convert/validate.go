package convert

import (
	"fmt"
	"maps"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/pattern"
	"ephor.invalid/ephor/internal/value"
)

// validation converts the validate block of a rule.
func (c *converter) validation(r *kyvernov1.Rule, spec map[string]any) {
	v, path := r.Validation, c.path+".validate"
	switch {
	case v.RawPattern != nil:
		c.existing(v)
		if raw, ok := c.decodePattern(v.RawPattern, path+".pattern"); ok {
			c.trail = trail{known: true}
			c.holds(spec, c.needing(func() expr { return c.pattern(raw, member("object"), path+".pattern").fits }), v.Message, path)
		}
	case v.RawAnyPattern != nil:
		c.existing(v)
		raw, _ := c.decodePattern(v.RawAnyPattern, path+".anyPattern")
		c.trail = trail{known: true}
		c.holds(spec, c.needing(func() expr { return c.anyPattern(raw, member("object"), path+".anyPattern") }), v.Message, path)
	case v.Deny != nil:
		c.existing(v)
		denied := yes
		raw, ok := c.decode(v.Deny.RawAnyAllConditions, path+".deny.conditions")
		if ok && raw != nil {
			denied = c.denied(raw, path+".deny.conditions")
		}
		c.holds(spec, not(denied), v.Message, path)
		c.tell(spec, v.Message, raw, path)
	case v.CEL != nil:
		c.cel(v.CEL, v.Message, spec, path+".cel")
	case v.PodSecurity != nil:
		c.existing(v)
		c.podSecurity(v, spec, path+".podSecurity")
	case len(v.ForEachValidation) > 0:
		c.failing = nil
		c.holds(spec, c.foreach(v.ForEachValidation, path+".foreach"), v.Message, path)
		c.tellOf(spec, v.Message, path)
	case v.Manifests != nil:
		c.refuse(path+".manifests", "signed YAML has no counterpart in CEL", "")
	case v.Assert != nil:
		c.refuse(path+".assert", "assertion trees have no counterpart in CEL", "")
	default:
		c.refuse(path, "the rule does not validate anything", "")
	}
}

// properties converts the properties in reports to audit annotations.
func (c *converter) properties(r *kyvernov1.Rule, spec map[string]any) {
	all, _ := spec["auditAnnotations"].([]any)
	for _, name := range sortedKeys(r.ReportProperties) {
		c.inMessage = true
		parts, ok := c.texts(r.ReportProperties[name], c.path+".reportProperties."+name)
		c.inMessage = false
		if ok {
			if len(parts) == 1 && !isLiteral(parts[0]) {
				parts[0] = "string(" + parts[0] + ")"
			}
			all = append(all, map[string]any{"key": name, "valueExpression": strings.Join(parts, " + ")})
		}
	}
	if len(all) > 0 {
		spec["auditAnnotations"] = all
	}
}

// foreach converts loops: each element of each list must match.
func (c *converter) foreach(loops []kyvernov1.ForEachValidation, path string) expr {
	out := yes
	for i := range loops {
		l, path := &loops[i], fmt.Sprintf("%s[%d]", path, i)
		all, ok := c.search(strings.TrimSpace(l.List), path+".list")
		if !ok {
			continue
		}
		all.text = unsorted(all.text)
		around, placed, of, x := c.element, c.elementPlace, c.elementShape, c.variableOf(all.expr)
		said := "''"
		c.outer = append(c.outer, loop{element: member(x)})
		c.element, c.elementPlace, c.elementShape = member(x), all.itemPlace(), all.elements
		entries := maps.Clone(c.entries)
		c.context(l.Context, path+".context")
		c.trail = trail{known: c.elementPlace != nil, names: c.elementPlace}
		on := c.element
		if l.ElementScope != nil && !*l.ElementScope { // the pattern is about the whole object
			on, c.trail = c.object, trail{known: true}
			if c.controllers { // of a Pod controller, the classic rule tries the controller; autogen changes the text object.spec only
				on = member("dyn(" + on.text + ")")
			}
		}
		fits := yes
		switch {
		case l.RawPattern != nil:
			if raw, ok := c.decodePattern(l.RawPattern, path+".pattern"); ok {
				fits = c.needing(func() expr { return c.pattern(raw, on, path+".pattern").fits })
			}
		case l.RawAnyPattern != nil:
			raw, _ := c.decodePattern(l.RawAnyPattern, path+".anyPattern")
			fits = c.needing(func() expr { return c.anyPattern(raw, on, path+".anyPattern") })
		case l.Deny != nil:
			if raw, ok := c.decode(l.Deny.RawAnyAllConditions, path+".deny.conditions"); ok && raw != nil {
				fits = not(c.denied(raw, path+".deny.conditions"))
				before := c.reasons
				c.inMessage = true
				if told := c.told(raw, path+".deny.conditions"); len(told) > 0 {
					said = strings.Join(told, " + ")
				}
				c.inMessage, c.reasons = false, before
			} else {
				fits = no
			}
		default:
			fits = c.foreach(l.ForEachValidation, path+".foreach")
		}
		if p := l.AnyAllConditions; p != nil {
			fits = or(not(c.surely(func() expr { return c.conditions(document(p), path+".preconditions") })), fits)
		}
		c.element, c.elementPlace, c.elementShape, c.entries = around, placed, of, entries
		c.outer = c.outer[:len(c.outer)-1]
		list := all.orElse("[]")
		out = and(out, list.macro("all", x, fits))
		if len(c.outer) == 0 {
			c.failing = append(c.failing, list.macro("filter", x, not(fits)).macro("map", x, member(said)).text)
			c.telling = c.telling || said != "''"
		} else if said != "''" {
			c.note(path+".deny.conditions", "the messages of single conditions in inner loops are omitted", "write the conditions as separate validations with messages")
		}
	}
	return out
}

// anyPattern converts alternative patterns. The rule is not applicable if none of them is applicable.
func (c *converter) anyPattern(raw any, at expr, path string) expr {
	all, _ := raw.([]any)
	fits, off := no, yes
	for i, one := range all {
		part := c.pattern(one, at, fmt.Sprintf("%s[%d]", path, i))
		fits, off = or(fits, and(part.fits, not(part.off))), and(off, part.off)
	}
	return or(fits, off)
}

// decodePattern decodes a pattern, with the values of its references to other places in it.
func (c *converter) decodePattern(raw *apiextensionsv1.JSON, path string) (any, bool) {
	v, ok := c.decode(raw, path)
	if !ok {
		return nil, false
	}
	resolved, err := pattern.ResolveReferences(v)
	if err != nil {
		c.refuse(path, err.Error(), "")
		return nil, false
	}
	return resolved, true
}

func (c *converter) decode(raw *apiextensionsv1.JSON, path string) (any, bool) {
	if raw == nil {
		return nil, false
	}
	v, err := value.DecodeJSON(raw.Raw)
	if err != nil {
		c.refuse(path, err.Error(), "")
		return nil, false
	}
	return v, true
}

// holds adds the single validation of a policy.
func (c *converter) holds(spec map[string]any, e expr, message, path string) {
	validation := map[string]any{"expression": c.conditional(e).text}
	c.message(message, path+".message", validation)
	spec["validations"] = []any{validation}
}

// tell adds the messages of the conditions of deny to that of the rule.
func (c *converter) tell(spec map[string]any, message string, conditions any, path string) {
	before := c.reasons
	c.inMessage = true
	told := c.told(conditions, path+".deny.conditions")
	own, ok := c.texts(message, path+".message")
	c.inMessage = false
	if c.reasons = before; len(told) == 0 || !ok {
		return
	}
	if len(own) == 0 {
		told[0] = strings.ReplaceAll(told[0], "'; ", "'")
	}
	one := spec["validations"].([]any)[0].(map[string]any)
	delete(one, "message")
	one["messageExpression"] = strings.Join(append(own, told...), " + ")
}

// tellOf adds the messages of the conditions of loops to that of the rule: those of the first element that fails.
func (c *converter) tellOf(spec map[string]any, message, path string) {
	before := c.reasons
	own, ok := c.texts(message, path+".message")
	if c.reasons = before; !c.telling || !ok {
		return
	}
	if len(own) == 0 {
		for i := range c.failing {
			c.failing[i] = strings.ReplaceAll(c.failing[i], "'; ", "'")
		}
	}
	first := c.failing[0]
	if len(c.failing) > 1 {
		first = "(" + strings.Join(c.failing, " + ") + ")"
	}
	one := spec["validations"].([]any)[0].(map[string]any)
	delete(one, "message")
	one["messageExpression"] = strings.Join(append(own, first+"[0]"), " + ")
}

// conditional returns a validation that holds where the preconditions do not.
func (c *converter) conditional(e expr) expr {
	if c.unless == (expr{}) || e == yes {
		return e
	}
	return expr{c.unless.within(bindsOr) + " ? " + e.within(bindsOr) + " : true", bindsTernary}
}

// message converts the message of a rule.
func (c *converter) message(message, path string, validation map[string]any) {
	if message == "" {
		return
	}
	if !strings.Contains(message, "{{") {
		validation["message"] = message
		return
	}
	before := c.reasons
	c.inMessage = true
	parts, ok := c.texts(message, path)
	c.inMessage = false
	if ok {
		expression := strings.Join(parts, " + ")
		if len(parts) == 1 && !strings.HasPrefix(expression, "string(") { // of type dyn
			expression = "string(" + expression + ")"
		}
		validation["messageExpression"] = expression
		return
	}
	// A message does not affect the verdict. If it cannot be converted, it stays as it is.
	c.reasons = before
	validation["message"] = message
	c.note(path, "the variables in the message are not converted, and appear literally", "write a messageExpression")
}

// cel converts a rule that is written in CEL.
func (c *converter) cel(v *kyvernov1.CEL, message string, spec map[string]any, path string) {
	params := c.parameters(v, path)
	var validations []any
	for i := range v.Expressions {
		one := params.validation(document(&v.Expressions[i]))
		if c.unless != (expr{}) {
			one["expression"] = c.conditional(expr{one["expression"].(string), bindsTernary}).text
		}
		if v.Expressions[i].Message == "" && v.Expressions[i].MessageExpression == "" && message != "" {
			c.message(message, c.path+".validate.message", one)
		}
		if _, ok := one["reason"]; ok {
			delete(one, "reason")
			c.note(fmt.Sprintf("%s.expressions[%d].reason", path, i), "the reason is omitted", "")
		}
		validations = append(validations, one)
	}
	spec["validations"] = validations
	all := params.variables()
	for i := range v.Variables {
		all = append(all, params.renamed(document(&v.Variables[i]), "expression"))
	}
	if len(all) > 0 {
		spec["variables"] = all
	}
	if len(v.AuditAnnotations) > 0 {
		var all []any
		for i := range v.AuditAnnotations {
			all = append(all, params.renamed(document(&v.AuditAnnotations[i]), "valueExpression"))
		}
		spec["auditAnnotations"] = all
	}
}
