package classic_test

import (
	"strings"
	"testing"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/family/classic"
	"ephor.invalid/ephor/internal/golden"
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
    match: {any: [{resources: {kinds: [Service]}}]}
    generate: {apiVersion: v1, kind: Secret, name: target, namespace: there, clone: {namespace: source, name: s}}
  - name: loop
    match: {any: [{resources: {kinds: [Pod]}}]}
    generate: {foreach: [{list: l, apiVersion: v1, kind: Secret, name: each, namespace: there, data: {}}]}
  - name: listing
    match: {any: [{resources: {kinds: [Pod]}}]}
    generate: {namespace: there, cloneList: {namespace: source, kinds: [v1/Secret]}}
  - name: validating
    match: {any: [{resources: {kinds: [Secret]}}]}
    validate: {deny: {}}
`

// TestUpdates shows the allowed changes of generate rules. The changes are pairs of a text and its replacement.
func TestUpdates(t *testing.T) {
	const (
		none, immutable, stale = "", "changes of immutable fields", "no synchronization will be performed"

		last     = "  - name: validating"
		more     = "  - name: three\n    match: {any: [{resources: {kinds: [Pod]}}]}\n    generate: {apiVersion: v1, kind: Secret, name: t, namespace: there}\n"
		sameMore = "  - name: three\n    match: {any: [{resources: {kinds: [Pod]}}]}\n    generate: {apiVersion: v1, kind: ConfigMap, name: target, namespace: there, data: {}}\n"
		// two is the rule of that name.
		two = "  - name: two\n    match: {any: [{resources: {kinds: [Service]}}]}\n    generate: {apiVersion: v1, kind: Secret, name: target, namespace: there, clone: {namespace: source, name: s}}\n"
	)
	for _, c := range []struct {
		name    string
		changes []string
		want    string
	}{
		{"nothing", nil, none},
		{"synchronize", []string{"synchronize: true", "synchronize: false, orphanDownstreamOnPolicyDelete: true, generateExisting: true"}, none},
		{"data", []string{"{k: v}", "{k: w}"}, none},
		{"foreach", []string{"list: l", "list: m", "name: each", "name: other"}, none},
		{"another rule", []string{"deny: {}", "message: other, deny: {}"}, none},
		{"a rule more", []string{last, more + last}, none},
		{"a rule more that generates the same", []string{last, sameMore + last}, none},
		{"order of the rules", []string{two, "", last, two + last}, none},
		{"match", []string{"kinds: [Secret]", "kinds: [Pod]"}, immutable},
		{"match of a rule beside one that synchronizes", []string{"kinds: [Service]", "kinds: [Pod]"}, immutable},
		{"exclude", []string{"names: [x]", "names: [z]"}, immutable},
		{"preconditions", []string{"key: a", "key: b"}, immutable},
		{"context", []string{"    preconditions:", "    context: [{name: v, variable: {value: 1}}]\n    preconditions:"}, immutable},
		{"name", []string{"name: one", "name: uno"}, immutable},
		{"name, with a rule more", []string{"name: one", "name: uno", last, more + last}, immutable},
		{"synchronize and match", []string{"synchronize: true, ", "", "kinds: [Secret]", "kinds: [Pod]"}, immutable},
		{"what two rules generate, exchanged", []string{"name: one", "name: uno", "name: two", "name: one", "name: uno", "name: two"}, immutable},
		{"target name", []string{"name: target", "name: other"}, stale},
		{"target namespace", []string{"namespace: there", "namespace: elsewhere"}, stale},
		{"target kind", []string{"kind: ConfigMap", "kind: Secret"}, stale},
		{"target apiVersion", []string{"apiVersion: v1, kind: ConfigMap", "apiVersion: v2, kind: ConfigMap"}, stale},
		{"source", []string{"namespace: source", "namespace: elsewhere"}, stale},
		{"kinds of a list", []string{"kinds: [v1/Secret]", "kinds: [v1/Secret, v1/ConfigMap]"}, stale},
		{"data in place of a clone", []string{"clone: {namespace: source, name: s}", "data: {}"}, stale},
		{"target and name", []string{"name: one", "name: uno", "name: target", "name: other"}, stale},
		{"source and match", []string{"namespace: source", "namespace: elsewhere", "kinds: [Secret]", "kinds: [Pod]"}, stale},
		{"source of one rule, preconditions of another", []string{"namespace: source", "namespace: elsewhere", "key: a", "key: b"}, stale},
		{"a rule less", []string{two, ""}, stale},
		{"a rule less, exclude of another", []string{two, "", "names: [x]", "names: [z]"}, stale},
	} {
		wantUpdate(t, c.name, generating, replaced(t, c.name, generating, c.changes), c.want, c.want == immutable)
	}

	// If no rule of the stored policy synchronizes, match blocks may change, too, but nothing else.
	loose := strings.Replace(generating, "synchronize: true, ", "", 1)
	for _, c := range []struct {
		name    string
		changes []string
		want    string
	}{
		{"match", []string{"kinds: [Secret]", "kinds: [Pod]"}, none},
		{"match and synchronize", []string{"kinds: [Secret]", "kinds: [Pod]", "generate: {apiVersion", "generate: {synchronize: true, apiVersion"}, none},
		{"exclude", []string{"names: [x]", "names: [z]"}, immutable},
		{"preconditions", []string{"key: a", "key: b"}, immutable},
		{"name", []string{"name: one", "name: uno"}, immutable},
		{"source and match", []string{"namespace: source", "namespace: elsewhere", "kinds: [Secret]", "kinds: [Pod]"}, stale},
	} {
		wantUpdate(t, c.name+", without synchronization", loose, replaced(t, c.name, loose, c.changes), c.want, c.want == immutable)
	}

	// One of two rules that generate the same may be removed.
	twice := strings.Replace(generating, last, sameMore+last, 1)
	wantUpdate(t, "one of two rules for the same target less", twice, generating, none, false)
}

func replaced(t *testing.T, name, text string, changes []string) string {
	t.Helper()
	for i := 0; i+1 < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("%s: there is no %q to replace", name, changes[i])
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	return text
}

func wantUpdate(t *testing.T, name, from, to, want string, refused bool) {
	t.Helper()
	decode := func(text string) *kyvernov1.ClusterPolicy {
		p, diags := classic.Decode(golden.Decode[map[string]any](t, []byte(text)))
		if len(diags) > 0 {
			t.Fatalf("%s: %v", name, diags)
		}
		return p
	}
	got := classic.CheckUpdate(decode(from), decode(to))
	if got.HasErrors() != refused {
		t.Errorf("%s: severity of %v", name, got)
	}
	if want == "" && len(got) > 0 || want != "" && len(got) == 0 {
		t.Errorf("%s: %v, want %q", name, got, want)
	}
	for _, d := range got {
		if !strings.HasPrefix(d.Summary, want) {
			t.Errorf("%s: %v, want %q", name, got, want)
		}
	}
}
