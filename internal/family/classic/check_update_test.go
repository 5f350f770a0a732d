package classic_test

import (
	"strings"
	"testing"

	"github.com/ephor-dev/ephor/internal/family/classic"
)

const generating = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p}
spec:
  rules:
  - name: one
    match: {any: [{resources: {kinds: [Secret]}}]}
    exclude: {any: [{resources: {names: [x]}}]}
    preconditions: {all: [{key: a, operator: Equals, value: a}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: target, namespace: there, data: {data: {k: v}}}
  - name: two
    match: {any: [{resources: {kinds: [Secret]}}]}
    generate: {apiVersion: v1, kind: Secret, name: target, namespace: there, clone: {namespace: source, name: s}}
  - name: validating
    match: {any: [{resources: {kinds: [Secret]}}]}
    validate: {deny: {}}
`

// Language reference §13.8: what of a generate rule may change.
func TestUpdates(t *testing.T) {
	const immutable, stale = "changes of immutable fields", "no synchronization will be performed"
	for _, c := range []struct{ name, from, to, want string }{
		{"nothing", "", "", ""},
		{"synchronize", "synchronize: true", "synchronize: false, orphanDownstreamOnPolicyDelete: true, generateExisting: true", ""},
		{"data", "{k: v}", "{k: w}", ""},
		{"another rule", "deny: {}", "message: other, deny: {}", ""},
		{"a rule more", "  - name: validating", "  - name: three\n    match: {any: [{resources: {kinds: [Pod]}}]}\n    generate: {apiVersion: v1, kind: Secret, name: t, namespace: there}\n  - name: validating", ""},
		{"match", "kinds: [Secret]", "kinds: [Pod]", immutable},
		{"exclude", "names: [x]", "names: [z]", immutable},
		{"preconditions", "key: a", "key: b", immutable},
		{"name", "name: one", "name: uno", immutable},
		{"target name", "name: target", "name: other", stale},
		{"target namespace", "namespace: there", "namespace: elsewhere", stale},
		{"target kind", "kind: ConfigMap", "kind: Secret", stale},
		{"source", "namespace: source", "namespace: elsewhere", stale},
	} {
		before, _ := classic.Decode(decodeYAML(t, []byte(generating)))
		after, diags := classic.Decode(decodeYAML(t, []byte(strings.Replace(generating, c.from, c.to, 1))))
		if len(diags) > 0 {
			t.Fatalf("%s: %v", c.name, diags)
		}
		got := classic.CheckUpdate(before, after)
		switch {
		case c.want == "" && len(got) > 0, c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0].Summary, c.want)):
			t.Errorf("%s: %v, want %q", c.name, got, c.want)
		case got.HasErrors() != (c.want == immutable):
			t.Errorf("%s: severity of %v", c.name, got)
		}
	}
	removed, _ := classic.Decode(decodeYAML(t, []byte(generating[:strings.Index(generating, "  - name: two")])))
	all, _ := classic.Decode(decodeYAML(t, []byte(generating)))
	if got := classic.CheckUpdate(all, removed); len(got) > 0 {
		t.Errorf("a rule less: %v", got)
	}
}
