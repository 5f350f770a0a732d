package admission

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// The decoder skips fields that no rule reads. Each rule here denies a ConfigMap with a bad value, and finds it in its own way; another
// rule reads a neighboring field.
func TestWhatRulesReadIsDecoded(t *testing.T) {
	const text = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p}
spec:
  rules:
  - name: bad
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    %s
    validate:
      failureAction: Enforce
      message: "no"
      %s
  - name: other
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate:
      failureAction: Enforce
      pattern: {"=(data)": {"=(other)": "*"}, "=(list)": [{"=(other)": "*"}]}
`
	managers, data := `,"managedFields":[{"manager":"%s"}]}`, `},"data":{"a":"%s","b":"{}","other":"x"},"list":[{"k":"%[1]s","other":"x"},{"k":"good","l":["%[1]s"]}]`
	for name, c := range map[string]struct{ object, context, validate string }{
		"managers: pattern":         {managers, "", `pattern: {metadata: {managedFields: [{manager: "!bad"}]}}`},
		"managers: anyPattern":      {managers, "", `anyPattern: [{metadata: {managedFields: [{manager: "!bad"}]}}]`},
		"managers: condition":       {managers, "", `deny: {conditions: {any: [{key: "{{ request.object.metadata.managedFields[].manager }}", operator: AnyIn, value: [bad]}]}}`},
		"managers: whole metadata":  {managers, "", `deny: {conditions: {any: [{key: "{{ contains(to_string(request.object.metadata), '\"bad\"') }}", operator: Equals, value: true}]}}`},
		"managers: whole object":    {managers, "", `deny: {conditions: {any: [{key: "{{ request.object | to_string(@) | contains(@, '\"bad\"') }}", operator: Equals, value: true}]}}`},
		"managers: whole request":   {managers, "", `deny: {conditions: {any: [{key: "{{ request | to_string(@) | contains(@, '\"bad\"') }}", operator: Equals, value: true}]}}`},
		"managers: nested variable": {managers, `context: [{name: field, variable: {value: managedFields}}]`, `deny: {conditions: {any: [{key: "{{ request.object.metadata.{{ field }}[].manager }}", operator: AnyIn, value: [bad]}]}}`},
		"managers: context":         {managers, `context: [{name: meta, variable: {jmesPath: request.object.metadata}}]`, `deny: {conditions: {any: [{key: "{{ meta.managedFields[].manager }}", operator: AnyIn, value: [bad]}]}}`},
		"managers: precondition":    {managers, `preconditions: {any: [{key: "{{ request.object.metadata.managedFields[0].manager }}", operator: Equals, value: bad}]}`, `deny: {}`},
		"managers: foreach":         {managers, "", `foreach: [{list: "request.object.metadata.managedFields", deny: {conditions: {any: [{key: "{{ element.manager }}", operator: Equals, value: bad}]}}}]`},
		"managers: foreach pattern": {managers, "", `foreach: [{list: "[request.object]", pattern: {metadata: {managedFields: [{manager: "!bad"}]}}}]`},
		"managers: cel":             {managers, "", `cel: {expressions: [{expression: "!has(object.metadata.managedFields) || object.metadata.managedFields[0].manager != 'bad'"}]}`},

		"pattern":                {data, "", `pattern: {data: {a: "!bad"}}`},
		"wildcard":               {data, "", `pattern: {"=(data)": {"=(a)": "!b*"}}`},
		"variable in a key":      {data, `context: [{name: key, variable: {value: a}}]`, `pattern: {data: {"{{ key }}": "!bad"}}`},
		"reference":              {data, "", `pattern: {data: {other: "x", a: "!$(./../../list)"}, "=(list)": [{k: "!bad"}]}`},
		"anchors":                {data, "", `pattern: {"(kind)": ConfigMap, "=(list)": [{"(k)": bad, "X(other)": "null"}]}`},
		"anyPattern":             {data, "", `anyPattern: [{data: {a: bad, b: x}}, {data: {a: good}}]`},
		"condition":              {data, "", `deny: {conditions: {any: [{key: "{{ request.object.list[?k == 'bad'].other | length(@) }}", operator: GreaterThan, value: 0}]}}`},
		"value of a condition":   {data, "", `deny: {conditions: {any: [{key: bad, operator: AnyIn, value: "{{ request.object.list[*].k }}"}]}}`},
		"values":                 {data, "", `deny: {conditions: {any: [{key: bad, operator: AnyIn, value: "{{ request.object.data.* }}"}]}}`},
		"context":                {data, `context: [{name: x, variable: {value: "{{ request.object.data }}", jmesPath: a}}]`, `deny: {conditions: {any: [{key: "{{ x }}", operator: Equals, value: bad}]}}`},
		"foreach":                {data, "", `foreach: [{list: "request.object.list", deny: {conditions: {any: [{key: "{{ element.k }}", operator: Equals, value: bad}]}}}]`},
		"foreach, numbered":      {data, "", `foreach: [{list: "request.object.list[]", deny: {conditions: {any: [{key: "{{ element0.k }}", operator: Equals, value: bad}]}}}]`},
		"foreach, nested":        {data, "", `foreach: [{list: "request.object.list", foreach: [{list: "element.l || ['x']", deny: {conditions: {any: [{key: "{{ element }}", operator: Equals, value: bad}]}}}]}]`},
		"foreach, outer element": {data, "", `foreach: [{list: "request.object.list", foreach: [{list: "['x']", deny: {conditions: {any: [{key: "{{ element0.k }}", operator: Equals, value: bad}]}}}]}]`},
		"foreach, pattern":       {data, "", `foreach: [{list: "request.object.list", pattern: {k: "!bad"}}]`},
		"foreach, whole object":  {data, "", `foreach: [{list: "request.object.list[].k", elementScope: false, pattern: {data: {a: "!bad"}}}]`},
		"foreach, precondition":  {data, "", `foreach: [{list: "request.object.list", preconditions: {all: [{key: "{{ element.k }}", operator: Equals, value: bad}]}, deny: {}}]`},
		"foreach, context":       {data, "", `foreach: [{list: "request.object.list", context: [{name: x, variable: {jmesPath: element.k}}], deny: {conditions: {any: [{key: "{{ x }}", operator: Equals, value: bad}]}}}]`},
		"query inside of data":   {`,"annotations":{"q":"{{ request.object.data.a }}"}},"data":{"a":"%s"}`, "", `deny: {conditions: {any: [{key: "is {{ request.object.metadata.annotations.q }}", operator: Equals, value: is bad}]}}`},
		"query of the author":    {data, `context: [{name: own, variable: {value: "\\{{ request.object.data.a }}"}}]`, `deny: {conditions: {any: [{key: "is {{ own }}", operator: Equals, value: is bad}]}}`},
		"query, after another": {`,"annotations":{"q":"{{ request.object.data.{{ request.object.data.b }} }}"}},"data":{"a":"%s","b":"a"}`, "",
			`deny: {conditions: {any: [{key: "is {{ request.object.metadata.annotations.q }}", operator: Equals, value: is bad}]}}`},
	} {
		var config map[string]string
		if strings.HasPrefix(name, "query inside") || strings.HasPrefix(name, "query, after") {
			config = map[string]string{"expandData": "p"}
		}
		srv, _ := setup(t, fakeCluster{}, config, fmt.Sprintf(text, c.context, c.validate))
		for content, allowed := range map[string]bool{"good": true, "bad": false} {
			_, res := postReview(t, srv, "/validate/fail", configMapWith(fmt.Sprintf(c.object, content)))
			if res.Allowed != allowed || !allowed && !strings.Contains(res.Result.Message, "bad: ") {
				t.Errorf("%s: %s: %+v", name, content, res)
			}
		}
	}
}

// configMapWith returns a review of a ConfigMap whose text continues with rest after the members of its metadata.
func configMapWith(rest string) []byte {
	return configMap("", func(q *admissionv1.AdmissionRequest) {
		q.Object.Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"shop"` + rest + `}`)
	})
}

// Fields that no rule reads are skipped, since typical rules read little of an object.
func TestPartialObjects(t *testing.T) {
	body := configMapWith(`,"labels":{"team":"a"},"managedFields":[{"manager":"a"}]},"data":{"a":"b"}`)
	decode := func(srv *Server, body []byte) (*policy.Request, map[string]any) {
		t.Helper()
		at := boundRoute{srv.routes.find("/validate/fail"), srv.snapshot()}
		req, err := decodeReview(string(body), at.reads)
		if err != nil {
			t.Fatal(err)
		}
		object, err := req.Object.Map()
		if err != nil {
			t.Fatal(err)
		}
		return req, object
	}
	srv, _ := setup(t, fakeCluster{}, nil, enforced("Fail"))
	req, object := decode(srv, body)
	if got := value.JSON(object); got != `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"team":"a"},"name":"c","namespace":"shop"}}` || !req.Object.Partial() {
		t.Error(got)
	}
	if whole, _ := req.Object.Whole().Map(); whole["data"] == nil || whole["metadata"].(map[string]any)["managedFields"] == nil {
		t.Errorf("the whole object is %v", whole)
	}
	// A review with its fields in another order, or twice, is decoded correctly.
	for _, body := range []string{
		strings.Replace(string(body), `"operation":"CREATE",`, "", 1)[:len(body)-len(`"operation":"CREATE",`)-2] + `,"operation":"CREATE"}}`,
		string(body[:len(body)-2]) + `,"operation":"UPDATE"}}`,
		string(body[:len(body)-2]) + `,"subResource":"x"}}`,
	} {
		if req, object := decode(srv, []byte(body)); object["data"] == nil || req.Object.Partial() {
			t.Errorf("%s: %v", body, object)
		}
	}
	srv, _ = setup(t, fakeCluster{}, nil, podSecurity(t, "pod-security")...)
	_, pod := decode(srv, podReview(false))
	container := pod["spec"].(map[string]any)["containers"].([]any)[2].(map[string]any)
	if container["env"] != nil || container["securityContext"] == nil || container["ports"] == nil {
		t.Errorf("of a container is decoded %v", container)
	}
}
