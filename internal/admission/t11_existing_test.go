package admission

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"ephor.invalid/ephor/internal/policy"
)

// limitPolicy gives an error for an object whose data.replicas is missing or not a text.
const limitPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: limit}
spec:
  failurePolicy: %s
  rules:
  - name: replicas
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate:
      failureAction: Enforce
      message: "at most 3 replicas"
      deny: {conditions: {all: [{key: "{{ parse_json(request.object.data.replicas) }}", operator: GreaterThan, value: 3}]}}
`

// T11: an update that violates a policy is denied, unless the old object violated it as well. An error on the old object does not count;
// otherwise a user could store an object that causes an error and then change it.
func TestT11OldObjectWithAnError(t *testing.T) {
	for _, failurePolicy := range []string{"Fail", "Ignore"} {
		srv, _ := setup(t, fakeCluster{}, nil, fmt.Sprintf(limitPolicy, failurePolicy))
		var reported []policy.Result
		var refused bool
		srv.Report = func(_ *policy.Request, results []policy.Result, no bool) { reported, refused = results, no }
		for _, c := range []struct {
			name, old string
			allowed   bool
			status    policy.Status
			want      string
		}{
			{"the old object violated it", `{"replicas":"5"}`, true, policy.StatusSkip, "pre-existing violations are allowed"},
			{"the old object did not", `{"replicas":"2"}`, false, policy.StatusFail, "at most 3 replicas"},
			{"the key is missing in the old object", `{}`, false, policy.StatusFail, "at most 3 replicas"},
			{"the old object has no data", `null`, false, policy.StatusFail, "at most 3 replicas"},
			{"the value of the old object is a map", `{"replicas":{}}`, false, policy.StatusFail, "at most 3 replicas"},
		} {
			reported, refused = nil, false
			_, res := postReview(t, srv, "/validate/"+strings.ToLower(failurePolicy), configMap("", func(q *admissionv1.AdmissionRequest) {
				q.Operation = admissionv1.Update
				q.Object.Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"shop"},"data":{"replicas":"9"}}`)
				q.OldObject.Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"shop"},"data":` + c.old + `}`)
			}))
			if res.Allowed != c.allowed {
				t.Errorf("%s, failurePolicy %s: allowed %t, want %t", c.name, failurePolicy, res.Allowed, c.allowed)
			}
			if !c.allowed && (res.Result == nil || !strings.Contains(res.Result.Message, c.want)) {
				t.Errorf("%s, failurePolicy %s: refused with %v, want %q", c.name, failurePolicy, res.Result, c.want)
			}
			// Reports and events use these results.
			if len(reported) != 1 || reported[0].Status != c.status || !strings.Contains(reported[0].Message, c.want) || refused == c.allowed {
				t.Errorf("%s, failurePolicy %s: reported %+v, refused %t, want %s %q", c.name, failurePolicy, reported, refused, c.status, c.want)
			}
		}
	}
}
