package main

import "fmt"

// celOn returns a ValidatingPolicy for a resource of the core group.
func celOn(name, resource string, constraints object) object {
	match := object{"resourceRules": []any{object{
		"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE", "UPDATE"}, "resources": []any{resource},
	}}}
	for k, v := range constraints {
		match[k] = v
	}
	return object{
		"apiVersion": "policies.kyverno.io/v1", "kind": "ValidatingPolicy", "metadata": object{"name": name},
		"spec": object{
			"matchConstraints": match,
			"validations": []any{object{
				"expression": "object.spec.containers.all(c, !c.?securityContext.?privileged.orValue(false))",
				"message":    "privileged containers are not allowed",
			}},
		},
	}
}

func celOnOtherKind(n int) object { return celOn(fmt.Sprintf("other-%d", n), "services", nil) }

// celExcluded returns a policy that does not match the Pod, by the name in its rule or by its label. (A policy with match conditions has a
// webhook of its own, and the API server evaluates them.)
func celExcluded(n int) object {
	name, other := fmt.Sprintf("excluded-%d", n), fmt.Sprintf("other-%d", n)
	if n%2 == 0 {
		return celOn(name, "pods", object{"objectSelector": object{"matchLabels": object{"team": other}}})
	}
	p := celOn(name, "pods", nil)
	p["spec"].(object)["matchConstraints"].(object)["resourceRules"].([]any)[0].(object)["resourceNames"] = []any{other}
	return p
}
