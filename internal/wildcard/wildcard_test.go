package wildcard

import (
	"regexp"
	"strings"
	"testing"
)

var cases = []struct {
	pattern, text string
	want          bool
}{
	{"", "", true},
	{"", "a", false},
	{"*", "", true},
	{"*", "any/thing at all", true},
	{"**", "", true},
	{"?", "", false},
	{"?", "a", true},
	{"?", "ab", false},
	{"?", "é", true}, // one character, two bytes
	{"??", "é", false},
	{"?*", "", false},
	{"?*", "a", true},
	{"*?", "", false},
	{"*?", "abc", true},
	{"*?*", "", false},
	{"*?*", "x", true},
	{"abc", "abc", true},
	{"abc", "Abc", false},
	{"abc", "abcd", false},
	{"ab*", "ab", true},
	{"ab*", "abcd", true},
	{"ab*", "a", false},
	{"*cd", "abcd", true},
	{"*cd", "abcde", false},
	{"*bc*", "abcd", true},
	{"*bc*", "acbd", false},
	{"a*d", "abcd", true},
	{"a*d", "ad", true},
	{"a*d", "abcde", false},
	{"a*b*c", "a-b-b-c", true},
	{"a?c", "abc", true},
	{"a?c", "ac", false},
	{"*/foo:*.*.*", "test/foo:1.2.3", true},
	{"*/foo:*.*.*", "test/foo:1.2", false},
	{"registry.io/*", "registry.io/a/b/c", true},
	{"*:*", "nginx", false},
	{"*:*", "nginx:1", true},
	{"*a*a*a*b", strings.Repeat("a", 200), false},
	{`\*`, "*", false}, // no escaping
	{`\*`, `\x`, true},
	{"*é", "aé", true},
	{"[a-z]", "b", false},
}

func TestMatch(t *testing.T) {
	for _, c := range cases {
		if got := Match(c.pattern, c.text); got != c.want {
			t.Errorf("Match(%q, %q) = %v, want %v", c.pattern, c.text, got, c.want)
		}
		if got := Compile(c.pattern).Match(c.text); got != c.want {
			t.Errorf("Compile(%q).Match(%q) = %v, want %v", c.pattern, c.text, got, c.want)
		}
	}
}

func TestMatchAny(t *testing.T) {
	if !MatchAny([]string{"x", "a*"}, "abc") || MatchAny([]string{"x", "b*"}, "abc") || MatchAny(nil, "") {
		t.Error("MatchAny")
	}
}

func TestPattern(t *testing.T) {
	if s, ok := Compile("abc").Literal(); !ok || s != "abc" {
		t.Errorf("Literal of abc = %q %v", s, ok)
	}
	if _, ok := Compile("ab*").Literal(); ok {
		t.Error("ab* is no literal")
	}
	for pattern, want := range map[string]string{"abc": "abc", "ab*": "ab", "a?c*": "a", "*": "", "": ""} {
		if got := Compile(pattern).Prefix(); got != want {
			t.Errorf("Prefix(%q) = %q, want %q", pattern, got, want)
		}
	}
	if got := Compile("a*").String(); got != "a*" {
		t.Errorf("String = %q", got)
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	patterns := []string{"*", "?*", "literal", "pre*", "*fix", "*mid*", "a*b?c*"}
	compiled := make([]Pattern, len(patterns))
	for i, p := range patterns {
		compiled[i] = Compile(p)
	}
	if n := testing.AllocsPerRun(100, func() {
		for i, p := range patterns {
			Match(p, "some/text")
			compiled[i].Match("some/text")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzMatch compares both matchers with the equivalent regular expression.
func FuzzMatch(f *testing.F) {
	for _, c := range cases {
		f.Add(c.pattern, c.text)
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 50 || len(text) > 200 || !validUTF8(pattern) || !validUTF8(text) {
			t.Skip()
		}
		expr := regexp.QuoteMeta(pattern)
		expr = strings.ReplaceAll(strings.ReplaceAll(expr, `\*`, `.*`), `\?`, `.`)
		want := regexp.MustCompile(`(?s)\A` + expr + `\z`).MatchString(text)
		if got := Match(pattern, text); got != want {
			t.Errorf("Match(%q, %q) = %v, want %v", pattern, text, got, want)
		}
		if got := Compile(pattern).Match(text); got != want {
			t.Errorf("Compile(%q).Match(%q) = %v, want %v", pattern, text, got, want)
		}
	})
}

func validUTF8(s string) bool { return strings.ToValidUTF8(s, "") == s }

func BenchmarkMatch(b *testing.B) {
	for _, pattern := range []string{"*", "?*", "registry.example.com/*", "*:latest", "*/foo:*.*.*"} {
		b.Run(pattern, func(b *testing.B) {
			b.ReportAllocs()
			p := Compile(pattern)
			for b.Loop() {
				p.Match("registry.example.com/team/foo:1.2.3")
			}
		})
	}
}

// TestHostile tests that patterns that make backtracking matchers run for ever take linear time, or that Cost reports
// more.
func TestHostile(t *testing.T) {
	long := strings.Repeat("a", 1_000_000)
	for _, p := range []string{
		strings.Repeat("*a", 50_000) + "*b",
		"*" + long[:500_000] + "b*c",
		"*" + long[:500_000] + "*b",
		"*" + long[:500_000] + "b",
		strings.Repeat("*", 500_000) + "b",
		strings.Repeat("?", 500_000) + "b",
		"*" + strings.Repeat("?", 500_000) + "b",
	} {
		if Match(p, long) {
			t.Errorf("%.20s… matches", p)
		}
	}
	if c := Cost("*"+strings.Repeat("?", 1000)+"b*", long); c < 1e8 {
		t.Errorf("a thousand million comparisons are %d steps", c)
	}
	if c := Cost("registry.io/*/app-?:*", "registry.io/team/app-1:v1.2.3"); c > 100 {
		t.Errorf("an everyday pattern costs %d", c)
	}
}
