package match

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/diag"
)

// TestCheck covers every mistake that match and exclude can have by themselves, with the text and the field path that the
// author sees.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name, rule string
		want       []string // path: summary
		warning    bool
	}{
		{name: "good", rule: `{match: {any: [{resources: {kinds: [Pod], names: [a], selector: {matchLabels: {a: "*"}}}, roles: ["a:b"],
			subjects: [{kind: User, name: u}, {kind: ServiceAccount, name: s, namespace: x}]}]}, exclude: {any: [{resources: {names: [b]}}]}}`},
		{name: "any and all", rule: `{match: {any: [{resources: {kinds: [Pod]}}], all: [{resources: {kinds: [Pod]}}]}}`,
			want: []string{"spec.rules[0].match: Can't specify any and all together"}},
		{name: "any and resources", rule: `{match: {any: [{resources: {kinds: [Pod]}}], resources: {kinds: [Pod]}}}`,
			want: []string{"spec.rules[0].match: can't specify any/all together with match resources"}},
		{name: "all and resources in exclude", rule: `{match: {any: [{resources: {kinds: [Pod]}}]}, exclude: {all: [{resources: {names: [a]}}], clusterRoles: [a]}}`,
			want: []string{"spec.rules[0].exclude: can't specify any/all together with exclude resources"}},
		{name: "name and names", rule: `{match: {all: [{resources: {kinds: [Pod], name: a, names: [b]}}]}}`,
			want: []string{"spec.rules[0].match.all[0].resources: Both name and names can not be specified together"}},
		{name: "empty selector", rule: `{match: {resources: {kinds: [Pod], selector: {}}}}`,
			want: []string{"spec.rules[0].match.resources.selector: The requirements are not specified in selector"}},
		{name: "unusable selectors", rule: `{match: {any: [{resources: {kinds: [Pod], selector: {matchExpressions: [{key: a, operator: Is}]},
			namespaceSelector: {matchLabels: {"a b": c}}}}]}}`,
			want: []string{
				`spec.rules[0].match.any[0].resources.selector: failed to parse selector: "Is" is not a valid label selector operator`,
				`spec.rules[0].match.any[0].resources.namespaceSelector: failed to parse selector: key: Invalid value: "a b": …`,
			}},
		{name: "subjects", rule: `{match: {any: [{resources: {kinds: [Pod]}, subjects: [{kind: Robot, name: r}, {kind: ServiceAccount, name: s}, {}]}]}}`,
			want: []string{
				"spec.rules[0].match.any[0].subjects[0].kind: kind must be 'User', 'Group', or 'ServiceAccount'",
				"spec.rules[0].match.any[0].subjects[1].namespace: namespace is required when Kind is ServiceAccount",
				"spec.rules[0].match.any[0].subjects[2].kind: Required value",
				"spec.rules[0].match.any[0].subjects[2].name: Required value",
			}},
		{name: "roles", rule: `{match: {any: [{resources: {kinds: [Pod]}}]}, exclude: {any: [{roles: ["ns:edit", edit, ":x"]}]}}`,
			want: []string{
				"spec.rules[0].exclude.any[0].roles[1]: Role is expected to be in namespace:name format",
				"spec.rules[0].exclude.any[0].roles[2]: Role is expected to be in namespace:name format",
			}},
		{name: "wildcard among kinds", rule: `{match: {any: [{resources: {kinds: [Pod, "*"]}}]}}`,
			want: []string{"spec.rules[0].match.any[0].resources.kinds: wildcard policy can not deal with more than one kind"}},
		{name: "namespaces in a Policy", rule: `{policyNamespace: ns, match: {any: [{resources: {kinds: [Pod], namespaces: [a]}}]}}`,
			want: []string{"spec.rules[0].match.any[0].resources.namespaces: Filtering namespaces not allowed in namespaced policies"}},
		{name: "unreadable kind", warning: true, rule: `{match: {any: [{resources: {kinds: [Pod, a/b/c]}}]}}`,
			want: []string{"spec.rules[0].match.any[0].resources.kinds[1]: the kind defined in the all match resource is invalid: unable to convert GVK to GVR for kinds a/b/c"}},
		{name: "exclude equals match", rule: `{match: {any: [{resources: {kinds: [Pod]}}]}, exclude: {any: [{resources: {kinds: [Pod]}}]}}`,
			want: []string{"spec.rules[0].exclude: Rule is matching an empty set"}},
		{name: "exclude is wider, in other forms", rule: `{match: {all: [{resources: {kinds: [Pod], namespaces: [a], selector: {matchLabels: {a: b, c: d}}}}]},
			exclude: {resources: {kinds: [Service, Pod], selector: {matchLabels: {a: b}}}}}`,
			want: []string{"spec.rules[0].exclude: Rule is matching an empty set"}},
		{name: "every filter is excluded", rule: `{match: {any: [{resources: {kinds: [Pod]}}, {resources: {kinds: [Service]}}]},
			exclude: {any: [{resources: {kinds: [Service]}}, {resources: {kinds: [Pod]}}]}}`,
			want: []string{"spec.rules[0].exclude: Rule is matching an empty set"}},
		{name: "one filter is left", rule: `{match: {any: [{resources: {kinds: [Pod]}}, {resources: {kinds: [Service]}}]}, exclude: {any: [{resources: {kinds: [Service]}}]}}`},
		{name: "exclude asks for more", rule: `{match: {any: [{resources: {kinds: [Pod]}}]}, exclude: {any: [{resources: {kinds: [Pod]}, clusterRoles: [admin]}]}}`},
		{name: "exclude all asks for more", rule: `{match: {any: [{resources: {kinds: [Pod]}}]}, exclude: {all: [{resources: {kinds: [Pod]}}, {resources: {names: [a]}}]}}`},
		{name: "an empty filter excludes nothing", rule: `{match: {any: [{resources: {kinds: [Pod]}}]}, exclude: {any: [{}]}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var rule ruleFile
			if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(c.rule, "\t", " ")), &rule); err != nil {
				t.Fatal(err)
			}
			_, got := Compile(rule.Match, rule.Exclude, rule.PolicyNamespace, "spec.rules[0]")
			if len(got) != len(c.want) {
				t.Fatalf("got %v, want %v", got, c.want)
			}
			for i, d := range got {
				text, exact := d.Path+": "+d.Summary, true
				want := c.want[i]
				if before, ok := strings.CutSuffix(want, "…"); ok { // the rest is the text of a library
					want, exact = before, false
				}
				if text != want && (exact || !strings.HasPrefix(text, want)) {
					t.Errorf("got  %s\nwant %s", text, c.want[i])
				}
				if (d.Severity == diag.Warning) != c.warning {
					t.Errorf("severity %v", d.Severity)
				}
			}
		})
	}
}

func TestNeeds(t *testing.T) {
	for rule, want := range map[string]string{
		`{match: {any: [{resources: {kinds: [Pod]}}]}}`:                                                                                              "",
		`{match: {any: [{resources: {kinds: [Pod]}}]}, exclude: {any: [{subjects: [{kind: User, name: a}]}]}}`:                                       "user",
		`{match: {any: [{resources: {kinds: [Pod]}, clusterRoles: [a]}]}}`:                                                                           "user roles",
		`{match: {resources: {kinds: [Pod]}, roles: ["a:b"]}}`:                                                                                       "user roles",
		`{match: {any: [{resources: {kinds: [Pod], namespaceSelector: {matchLabels: {a: b}}}}]}}`:                                                    "namespace",
		`{match: {any: [{resources: {kinds: [Pod]}}]}, exclude: {all: [{resources: {namespaceSelector: {matchLabels: {a: b}}}}]}}`:                   "namespace",
		`{match: {any: [{resources: {kinds: [Pod], selector: {matchLabels: {a: b}}, annotations: {a: b}, namespaces: [a], operations: [CREATE]}}]}}`: "",
	} {
		var file ruleFile
		if err := yaml.UnmarshalStrict([]byte(rule), &file); err != nil {
			t.Fatal(err)
		}
		m, _ := Compile(file.Match, file.Exclude, "", "spec.rules[0]")
		var got []string
		if m.Needs().User {
			got = append(got, "user")
		}
		if m.Needs().Roles {
			got = append(got, "roles")
		}
		if m.Needs().NamespaceLabels {
			got = append(got, "namespace")
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s needs %v, want %q", rule, got, want)
		}
	}
}

func TestTargetsAndExcludes(t *testing.T) {
	var file ruleFile
	if err := yaml.UnmarshalStrict([]byte(`
match:
  all:
  - resources: {namespaces: [a], operations: [CREATE, UPDATE]}
  - resources: {kinds: [Pod, apps/v1/Deployment], operations: [UPDATE, DELETE]}
  - resources: {kinds: [Pod], name: x, selector: {matchLabels: {k: v}}}
exclude:
  any:
  - resources: {kinds: [Pod], operations: [DELETE]}
  - resources: {namespaces: [kube-system]}
  - resources: {kinds: [Pod], annotations: {a: b}}
  - resources: {kinds: [Pod], selector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: Exists}]}}
  - resources: {kinds: [Pod]}
    clusterRoles: [admin]
`), &file); err != nil {
		t.Fatal(err)
	}
	m, _ := Compile(file.Match, file.Exclude, "", "spec.rules[0]")
	text := func(v any) string {
		b, err := yaml.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	const restrictions = "MatchLabels:\n    k: v\n  Names:\n  - x\n  Namespaces:\n  - a\n  Operations:\n  - UPDATE\n"
	const unsaid, none = "ExactVersion: false\n  GenerateNames: false\n  ", "  Resource: \"\"\n  Scope: \"\"\n  Subresource: \"\"\n  Unlisted: false\n"
	want := "- " + unsaid + "Group: '*'\n  Kind: Pod\n  " + restrictions + none + "  Version: '*'\n" +
		"- " + unsaid + "Group: apps\n  Kind: Deployment\n  " + restrictions + none + "  Version: v1"
	if got := text(m.Targets()); got != want {
		t.Errorf("targets\n%s\nwant\n%s", got, want)
	}
	if x := m.Excludes(); len(x) != 2 || x[0].Kind != "Pod" || len(x[0].Operations) != 1 || x[1].Kind != "*" || x[1].Namespaces[0] != "kube-system" {
		t.Errorf("excludes\n%s", text(x))
	}
}
