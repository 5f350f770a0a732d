package admission

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admission/v1"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// textsPolicy has rules whose texts are as long as what the requester sends.
const textsPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: texts}
spec:
  emitWarning: true
  rules:
  - name: error
    match: {any: [{resources: {kinds: [ConfigMap], names: ["error"]}}]}
    validate:
      failureAction: Enforce
      message: cron
      deny: {conditions: {all: [{key: "{{ time_to_cron(request.object.data.text) }}", operator: Equals, value: x}]}}
  - name: fail
    match: {any: [{resources: {kinds: [ConfigMap], names: ["fail"]}}]}
    validate:
      failureAction: Enforce
      message: "not allowed: {{ request.object.data.text }}"
      deny: {}
  - name: warn
    match: {any: [{resources: {kinds: [ConfigMap], names: ["warn"]}}]}
    validate:
      failureAction: Audit
      message: "better not: {{ request.object.data.text }}"
      deny: {}
`

// T14: texts of a review are bounded, whatever they quote: an answer of megabytes would go to the user, the audit log, reports, events and
// logs. A text is truncated between characters.
func TestT14TextsAreCut(t *testing.T) {
	srv, log := setup(t, fakeCluster{}, nil, textsPolicy)
	reported := make(chan policy.Result, 10)
	srv.Report = func(_ *policy.Request, results []policy.Result, _ bool) {
		for _, r := range results {
			reported <- r
		}
	}
	const most = 8 << 10 // bytes
	for _, c := range []struct {
		name   string
		begins string
	}{
		{"error", "failed to check deny conditions: "},
		{"fail", "not allowed: aä€😀"},
		{"warn", "better not: aä€😀"},
	} {
		for shift := range 4 { // in one of them the bound is within a character
			text := strings.Repeat("a", shift) + strings.Repeat("aä€😀", 60_000)
			_, res := postReview(t, srv, "/validate/fail", configMap("", func(q *admissionv1.AdmissionRequest) {
				q.Name = c.name
				q.Object.Raw, _ = json.Marshal(map[string]any{
					"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": c.name, "namespace": "shop"},
					"data": map[string]any{"text": text},
				})
			}))
			answer := fmt.Sprint(res.Warnings)
			if c.name != "warn" {
				answer = res.Result.Message
			}
			if want := map[bool]string{true: "better", false: "texts:"}[c.name == "warn"]; !strings.Contains(answer, want) || len(answer) > 4*most || !utf8.ValidString(answer) {
				t.Errorf("%s: the answer has %d bytes, valid %t: %.200s", c.name, len(answer), utf8.ValidString(answer), answer)
			}
			r := <-reported
			if begins := strings.Replace(c.begins, "aä", strings.Repeat("a", shift)+"aä", 1); !strings.HasPrefix(r.Message, begins) {
				t.Errorf("%s: the message begins %.100s", c.name, r.Message)
			}
			if len(r.Message) > most+len("…") || !strings.HasSuffix(r.Message, "…") || !utf8.ValidString(r.Message) {
				t.Errorf("%s: a message of %d bytes, valid %t", c.name, len(r.Message), utf8.ValidString(r.Message))
			}
		}
	}
	srv.audits.stop(t.Context())
	for line := range strings.Lines(log.String()) {
		if len(line) > 2*most {
			t.Errorf("a line of the log has %d bytes: %s", len(line), value.Clip(line, 100))
		}
	}
}

// T14: mistakes of a policy are reported in bounded texts, although every rule quotes its author's text.
func TestT14TextsAboutPolicies(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil)
	var rules []any
	for i := range 20 {
		rules = append(rules, map[string]any{
			"name": fmt.Sprintf("r%d", i), "match": map[string]any{"any": []any{map[string]any{"resources": map[string]any{"kinds": []any{"Pod"}}}}},
			"validate": map[string]any{"message": "m", "deny": map[string]any{}, strings.Repeat("ä", 30_000): "x"},
		})
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": map[string]any{"name": "long"}, "spec": map[string]any{"rules": rules},
	})
	if err != nil {
		t.Fatal(err)
	}
	code, res := postReview(t, srv, "/policyvalidate", configMap("", func(q *admissionv1.AdmissionRequest) {
		q.Kind.Group, q.Kind.Version, q.Kind.Kind = "kyverno.io", "v1", "ClusterPolicy"
		q.Resource.Group, q.Resource.Version, q.Resource.Resource = "kyverno.io", "v1", "clusterpolicies"
		q.Name, q.Namespace, q.Object.Raw = "long", "", raw
	}))
	if code != 200 || res.Allowed || res.Result == nil || !strings.Contains(res.Result.Message, "unknown field") {
		t.Fatalf("%d, %+.300v", code, res)
	}
	if m := res.Result.Message; len(m) > 65<<10 || !utf8.ValidString(m) {
		t.Errorf("the answer has %d bytes, valid %t", len(m), utf8.ValidString(m))
	}
}
