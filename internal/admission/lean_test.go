package admission

import (
	"fmt"
	"testing"
)

// An object is decoded without metadata.managedFields only when no rule of the stages looks at them. Each rule here
// refuses what a manager of the name bad has written, in a way of its own.
func TestManagedFieldsAreThereForRulesThatReadThem(t *testing.T) {
	const policy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: managers}
spec:
  rules:
  - name: bad
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    %s
    validate:
      failureAction: Enforce
      message: "no"
      %s
`
	for name, c := range map[string]struct{ context, validate string }{
		"pattern":         {"", `pattern: {metadata: {managedFields: [{manager: "!bad"}]}}`},
		"anyPattern":      {"", `anyPattern: [{metadata: {managedFields: [{manager: "!bad"}]}}]`},
		"condition":       {"", `deny: {conditions: {any: [{key: "{{ request.object.metadata.managedFields[].manager }}", operator: AnyIn, value: [bad]}]}}`},
		"whole metadata":  {"", `deny: {conditions: {any: [{key: "{{ contains(to_string(request.object.metadata), '\"bad\"') }}", operator: Equals, value: true}]}}`},
		"whole object":    {"", `deny: {conditions: {any: [{key: "{{ request.object | to_string(@) | contains(@, '\"bad\"') }}", operator: Equals, value: true}]}}`},
		"whole request":   {"", `deny: {conditions: {any: [{key: "{{ request | to_string(@) | contains(@, '\"bad\"') }}", operator: Equals, value: true}]}}`},
		"nested variable": {`context: [{name: field, variable: {value: managedFields}}]`, `deny: {conditions: {any: [{key: "{{ request.object.metadata.{{ field }}[].manager }}", operator: AnyIn, value: [bad]}]}}`},
		"context":         {`context: [{name: meta, variable: {jmesPath: request.object.metadata}}]`, `deny: {conditions: {any: [{key: "{{ meta.managedFields[].manager }}", operator: AnyIn, value: [bad]}]}}`},
		"precondition":    {`preconditions: {any: [{key: "{{ request.object.metadata.managedFields[0].manager }}", operator: Equals, value: bad}]}`, `deny: {}`},
		"foreach":         {"", `foreach: [{list: "request.object.metadata.managedFields", deny: {conditions: {any: [{key: "{{ element.manager }}", operator: Equals, value: bad}]}}}]`},
		"foreach pattern": {"", `foreach: [{list: "[request.object]", pattern: {metadata: {managedFields: [{manager: "!bad"}]}}}]`},
		"cel":             {"", `cel: {expressions: [{expression: "!has(object.metadata.managedFields) || object.metadata.managedFields[0].manager != 'bad'"}]}`},
	} {
		srv, _ := setup(t, fakeCluster{}, nil, fmt.Sprintf(policy, c.context, c.validate))
		for manager, allowed := range map[string]bool{"good": true, "bad": false} {
			_, res := ask(t, srv, "/validate/fail", configMap(`,"managedFields":[{"manager":"`+manager+`"}]`))
			if res.Allowed != allowed {
				t.Errorf("%s: written by %s: %+v", name, manager, res)
			}
		}
		if place := (place{srv.routes.find("/validate/fail"), srv.snapshot()}); place.lean() {
			t.Errorf("%s: the object would be decoded without managedFields", name)
		}
	}
	// Rules like these are the many.
	for _, policies := range [][]string{podSecurity(t), {enforced("Fail")}} {
		srv, _ := setup(t, fakeCluster{}, nil, policies...)
		if place := (place{srv.routes.find("/validate/fail"), srv.snapshot()}); !place.lean() {
			t.Error("managedFields would be decoded, and nobody looks at them")
		}
	}
	if req, err := decodeReview(configMap(`,"managedFields":[{"manager":"a"}]`), true); err != nil {
		t.Error(err)
	} else if o, _ := req.Object.Map(); o["metadata"].(map[string]any)["managedFields"] != nil || len(o["metadata"].(map[string]any)) != 2 {
		t.Errorf("%v", o)
	}
}
