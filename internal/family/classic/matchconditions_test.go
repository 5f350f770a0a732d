package classic_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/family/classic"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
)

// Where the conditions of the webhook do not hold no rule matches; at admission the API server has judged them.
func TestMatchConditions(t *testing.T) {
	object := decodeYAML(t, []byte(`
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p}
spec:
  webhookConfiguration:
    matchConditions:
    - {name: group, expression: "!('system:nodes' in request.userInfo.groups)"}
    - {name: name, expression: "object.metadata.labels.app == 'x'"}
  rules:
  - name: r
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate: {message: refused, deny: {}}
`))
	p, diags := classic.Decode(object)
	program := classic.Compile(p)
	if diags.HasErrors() || program.Diags.HasErrors() {
		t.Fatal(diags, program.Diags)
	}
	for _, c := range []struct {
		name, kind string
		origin     policy.RequestOrigin
		labels     map[string]any
		user       *policy.User
		want       string
	}{
		{"both hold", "Pod", policy.FromCLI, map[string]any{"app": "x"}, nil, "true <nil>"},
		{"one does not", "Pod", policy.FromScan, map[string]any{"app": "y"}, nil, "false <nil>"},
		{"the requester", "Pod", policy.FromCLI, map[string]any{"app": "x"}, &policy.User{Groups: []string{"system:nodes"}}, "false <nil>"},
		{"false wins over an error", "Pod", policy.FromCLI, nil, &policy.User{Groups: []string{"system:nodes"}}, "false <nil>"},
		{"an error", "Pod", policy.FromCLI, nil, nil, "false expression 'object.metadata.labels.app == 'x'' resulted in error: no such key: labels"},
		{"not for other kinds", "Secret", policy.FromCLI, nil, nil, "false <nil>"},
		{"at admission", "Pod", policy.FromAdmission, nil, nil, "true <nil>"},
	} {
		metadata := map[string]any{"name": "a"}
		if c.labels != nil {
			metadata["labels"] = c.labels
		}
		gvk := schema.GroupVersionKind{Version: "v1", Kind: c.kind}
		ok, err := program.Rules[0].Match(t.Context(), &policy.Request{
			Origin: c.origin, Operation: policy.Create, GVK: gvk, RequestGVK: gvk, User: c.user,
			Object: value.Of(map[string]any{"apiVersion": "v1", "kind": c.kind, "metadata": metadata}),
		})
		if got := fmt.Sprint(ok, " ", err); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
