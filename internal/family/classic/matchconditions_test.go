package classic_test

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/family/classic"
	"ephor.invalid/ephor/internal/golden"
)

// The API server accepts 64 match conditions for one webhook. With one more it would reject the webhooks of all policies.
func TestTooManyMatchConditions(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{64: "", 65: "Too many: 65: must have at most 64 items"} {
		var conditions strings.Builder
		for i := range n {
			fmt.Fprintf(&conditions, "{name: c%d, expression: 'true'},", i)
		}
		p, diags := classic.Decode(golden.Decode[map[string]any](t, []byte(`
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p}
spec:
  webhookConfiguration: {matchConditions: [`+conditions.String()+`]}
  rules:
  - name: r
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate: {message: refused, deny: {}}
`)))
		got := lines(append(diags, classic.Compile(p).Diags...))
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%d conditions: got %q, want %q", n, got, want)
		}
	}
}
