package clivalues

import (
	"fmt"
	"slices"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Values are the values for one policy and one resource.
type Values struct {
	// Operation is the value of request.operation; empty if none was given.
	Operation policy.Operation
	// Object and OldObject are merged into the object and the old object; nil if there is nothing to merge.
	Object, OldObject map[string]any

	names map[string]any // tree
	rules map[string]*ruleValues
}

// For returns the values for a policy and a resource, both identified by name alone. An unknown operation is an error.
func (s *Set) For(policyName, resourceName string) (Values, error) {
	if s == nil {
		return Values{}, nil
	}
	var v Values
	var names any = s.global
	if p := s.policies[policyName]; p != nil {
		if r, ok := p.resources[resourceName]; ok {
			names = value.Merge(orEmpty(names), r)
		}
		v.rules = p.rules
	}
	v.names, _ = value.Merge(orEmpty(names), s.assigned).(map[string]any)
	return v, v.takeRequest()
}

func orEmpty(v any) any {
	if m, ok := v.(map[string]any); ok && m != nil {
		return m
	}
	return map[string]any{}
}

var operations = []policy.Operation{policy.Create, policy.Update, policy.Delete, policy.Connect}

// takeRequest removes the values for the objects and the operation from names, and stores them in v.
func (v *Values) takeRequest() error {
	request, ok := v.names["request"].(map[string]any)
	if !ok {
		return nil
	}
	rest := make(map[string]any, len(request))
	for k, x := range request {
		switch k {
		case "object":
			v.Object, _ = x.(map[string]any)
		case "oldObject":
			v.OldObject, _ = x.(map[string]any)
		case "operation":
			operation, isText := x.(string)
			switch op := policy.Operation(operation); {
			case x == nil, isText && op == "":
			case slices.Contains(operations, op):
				v.Operation = op
			default:
				return fmt.Errorf("invalid request.operation value %s, must be one of CREATE, UPDATE, DELETE, CONNECT", value.JSON(x))
			}
		default:
			rest[k] = x
		}
	}
	names := make(map[string]any, len(v.names))
	for k, x := range v.names {
		names[k] = x
	}
	delete(names, "request")
	if len(rest) > 0 {
		names["request"] = rest
	}
	v.names = names
	return nil
}

// Rule returns the values that replace variables of the rule; nil for none. It can be used as policy.Request.Given.
func (v *Values) Rule(_ *policy.Program, r *policy.Rule) *policy.Given {
	rule := v.rules[r.Name]
	if rule == nil && r.Origin.Parent != "" {
		rule = v.rules[r.Origin.Parent]
	}
	if rule == nil {
		if len(v.names) == 0 {
			return nil
		}
		return &policy.Given{Names: v.names}
	}
	names, _ := value.Merge(orEmpty(v.names), rule.names).(map[string]any)
	g := &policy.Given{Names: names}
	if len(rule.elements) > 0 || len(rule.element) > 0 {
		g.Elements = rule.at
	}
	return g
}

// at returns the values for one element.
func (r *ruleValues) at(index int) map[string]any {
	if index >= len(r.elements) {
		return r.element
	}
	out, _ := value.Merge(r.element, r.elements[index]).(map[string]any)
	return out
}
