package compiler_test

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/cel/compiler"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/typecheck"
)

// Row S22 of docs/security/threat-model.md: the author of a policy must not be able to occupy the type checker, which
// cannot be stopped. Expressions just below the limits still compile.
func TestS22TypesThatNest(t *testing.T) {
	around := func(n int, open, middle, end string) string {
		return strings.Repeat(open, n) + middle + strings.Repeat(end, n)
	}
	balanced := "[]"
	for range 14 {
		balanced = "[" + balanced + "," + balanced + "]"
	}
	for _, c := range []struct{ name, expression, want string }{
		{"lists", around(19, "[", "[]", "]") + " == []", ""},
		{"deeper lists", around(100, "[", "1", "]") + " == []", "100 levels"},
		{"maps", around(100, "{'a':", "{}", "}") + " == {}", "101 levels"},
		{"keys", around(100, "{", "{}", ":1}") + " == {}", "101 levels"},
		{"conditions", around(100, "(true ? {'a':", "{}", "} : {})") + " == {}", "101 levels"},
		{"optional values", around(100, "optional.of(", "1", ")") + ".hasValue()", "100 levels"},
		{"types", around(100, "type(", "1", ")") + " == type", "100 levels"},
		{"macros", "[1]" + strings.Repeat(".map(x, [x])", 60) + " == []", "levels"},
		{"sums", around(100, "([", "[]", "]+[])") + " == []", "101 levels"},
		{"many lists", balanced + " == []", "to compile"},
		{"comparisons", strings.Repeat("object == 1 && ", 490) + "true", ""},
		{"many comparisons", strings.Repeat("object == 1 && ", 6000) + "true", "to compile"},
		{"many calls", strings.Repeat("object == 1 && ", 600) + "true", "there are 600 calls, lists, maps and macros"},
		{"a long list", "object in [" + strings.Repeat("'a', ", 2000) + "'a']", ""},
	} {
		_, err := compiler.New(env.Declarations{}).Compile(c.expression, typecheck.Bool)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %.200v, want %q", c.name, err, c.want)
		}
	}
	c := compiler.New(env.Declarations{})
	must(t, c.Variable("v0", "[]"))
	for i := range 100 { // each variable uses the previous one
		must(t, c.Variable(fmt.Sprint("v", i+1), fmt.Sprintf("[[variables.v%d]]", i)))
	}
	if _, err := c.Compile("variables.v100 == [[[]]]", typecheck.Bool); err != nil {
		t.Error(err)
	}
}
