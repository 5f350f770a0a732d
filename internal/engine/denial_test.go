package engine

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
)

func denied(status policy.Status, name, rule, message string) policy.Result {
	return policy.Result{
		Program: &policy.Program{Name: name}, Rule: &policy.Rule{Name: rule},
		Yield: policy.Yield{Status: status, Message: message},
	}
}

func TestDenialText(t *testing.T) {
	pod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	for _, c := range []struct {
		name    string
		req     *policy.Request
		results []policy.Result
		want    string
	}{{
		name: "keys are sorted, passing and skipped rules are not mentioned",
		req:  &policy.Request{Review: policy.Review{GVK: pod, Namespace: "default", Name: "nginx"}},
		results: []policy.Result{
			denied(policy.StatusFail, "require-limits", "check", "no limits"),
			denied(policy.StatusPass, "require-limits", "other", "passed"),
			denied(policy.StatusFail, "require-labels", "check-team", "validation error: label team is required. rule check-team failed at path /metadata/labels/team/"),
			denied(policy.StatusError, "require-labels", "a-rule", "it broke"),
			denied(policy.StatusSkip, "skipped", "rule", "skipped"),
			denied(policy.StatusWarn, "warned", "rule", "beware"),
		},
		want: `

resource Pod/default/nginx was blocked due to the following policies 

require-labels:
  a-rule: it broke
  check-team: 'validation error: label team is required. rule check-team failed at path /metadata/labels/team/'
require-limits:
  check: no limits
warned:
  rule: beware
`,
	}, {
		name:    "a cluster-scoped object keeps the empty namespace; quotes are doubled",
		req:     &policy.Request{Review: policy.Review{GVK: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Name: "foo"}},
		results: []policy.Result{denied(policy.StatusFail, "p", "r", "x: label 'app.kubernetes.io/name' is required")},
		want: `

resource Namespace//foo was blocked due to the following policies 

p:
  r: 'x: label ''app.kubernetes.io/name'' is required'
`,
	}, {
		name: "line breaks give block scalars, words that read as booleans are quoted",
		req:  &policy.Request{Review: policy.Review{GVK: pod, Namespace: "d", Name: "n"}},
		results: []policy.Result{
			denied(policy.StatusFail, "p", "r", "two\nlines"),
			denied(policy.StatusFail, "p", "yes", "ends with a break\n"),
		},
		want: `

resource Pod/d/n was blocked due to the following policies 

p:
  r: |-
    two
    lines
  "yes": |
    ends with a break
`,
	}, {
		name: "of two policies with one name the later message of a rule stands",
		req:  &policy.Request{Review: policy.Review{GVK: pod, Namespace: "d", Name: "n"}},
		results: []policy.Result{
			denied(policy.StatusFail, "p", "rule", "first"), denied(policy.StatusFail, "p", "rule", "second"),
		},
		want: `

resource Pod/d/n was blocked due to the following policies 

p:
  rule: second
`,
	}} {
		t.Run(c.name, func(t *testing.T) {
			if got := denialText(c.req, c.results); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// The fast writer must write the same as the YAML encoder, or leave the text to it.
func FuzzDenials(f *testing.F) {
	for _, s := range []string{
		"plain text", "key: value", "trailing:", "a #comment", "a#b", "it's", "it's: 'x'", "- item", "true", "Yes", "null", "1.5", "0x1f", "2001-01-01",
		"", " lead", "trail ", "tab\there", "two\nlines", "ends\n", "`x`", "*x", "é", "a: é", "?x", "{a}", "a{b}, [c]", "---", "...", "<<", "~", "x\u2028y",
		"\x00", "\xff", "rule[0]", "a10", "a9", "a09", "autogen-x", "Never", strings.Repeat("long text: ", 30), strings.Repeat("k", 140),
	} {
		f.Add(s, "rule", "message of "+s)
		f.Add("policy", s, s)
		f.Add("policy", "rule: x", s)
	}
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if !utf8.ValidString(a) || !utf8.ValidString(b) || !utf8.ValidString(c) {
			t.Skip("the API server lets no such text in")
		}
		if !ordered(a, b, c, "p9", "p10") {
			t.Skip("the encoder's order of keys goes round in a circle for these texts: numbers that overflow")
		}
		lines := []denial{{a, b, c}, {b, a, c}, {c, b, a}, {a, c, b}, {"p9", "r10", a + ": " + b}, {"p10", "r9", c}}
		want := string(appendEncoded(nil, slices.Clone(lines)))
		if got := string(appendDenials(nil, lines)); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// ordered reports whether the encoder's order of these keys is well-defined.
func ordered(keys ...string) bool {
	for _, x := range keys {
		for _, y := range keys {
			for _, z := range keys {
				if keyLess(x, y) && keyLess(y, z) && !keyLess(x, z) || x != y && keyLess(x, y) == keyLess(y, x) {
					return false
				}
			}
		}
	}
	return true
}

func BenchmarkDenialText(b *testing.B) {
	results := []policy.Result{}
	for _, p := range []string{"disallow-capabilities", "disallow-host-path", "disallow-privilege-escalation", "restrict-seccomp"} {
		results = append(results, denied(policy.StatusFail, p, "check", "validation error: The fields spec.containers[*].securityContext.privileged must be unset. rule check failed at path /spec/containers/0/"))
	}
	req := &policy.Request{Review: policy.Review{GVK: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: "default", Name: "nginx"}}
	b.ReportAllocs()
	for b.Loop() {
		denialText(req, results)
	}
}

// The API server sends a Namespace's own name as the request's namespace; the text is still `Namespace//foo`.
// A denial names every element that fails, so that all are corrected at once.
func TestDenialNamesElements(t *testing.T) {
	result := denied(policy.StatusFail, "p", "r", "validation failure: no latest")
	result.Failing("0 one, 2 three")
	got := denialText(&policy.Request{}, []policy.Result{result})
	if want := "r: 'validation failure: no latest (fails for the elements 0 one, 2 three)'"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
}

func TestDenialOfANamespace(t *testing.T) {
	r := request(policy.Create)
	r.GVK.Kind, r.Namespace, r.Name = "Namespace", "foo", "foo"
	if got := denialText(r, nil); !strings.HasPrefix(got, "\n\nresource Namespace//foo was blocked ") {
		t.Errorf("got %q", got)
	}
}
