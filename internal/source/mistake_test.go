package source

import (
	"fmt"
	"strings"
	"testing"
)

// Every mistake is reported on the line where an author would look for it.
func TestMistakeLines(t *testing.T) {
	for _, c := range []struct {
		text string
		line int
		want string
	}{
		{"# c\na:\n  - b\n c: d\n", 4, "did not find expected key"},
		{"# c\na: b: c\n", 2, "mapping values are not allowed"},
		{"a: b: c\n", 1, "mapping values are not allowed"},
		{"# c\na:\n  b: 1\n\tc: 2\n", 4, "tab character"},
		{"# c\na: [1, 2\nb: 3\n", 3, "did not find expected ',' or ']'"},
		{"# c\na: \"x\nb: 3\n", 2, "unexpected end of stream"},
		{"a: \"x\nb: 3\n", 1, "unexpected end of stream"},
		{"# c\na: 1\nb\nc: 2\n", 3, "could not find expected ':'"},
		{"# c\nz: 1\na: *x\n", 3, "unknown anchor 'x'"},
		{"# c\na: @x\n", 2, "cannot start any token"},
		{"# c\na:\n  b: 1\n c: 2\n", 4, "did not find expected key"},
		{"# c\n- a\nb: 1\n", 3, "did not find expected '-' indicator"},
		{"# c\na: 1\n- b\n", 3, "did not find expected key"},
		{"# c\nx: \"\\q\"\n", 2, "unknown escape character"},
		{"# c\nx: y\nz: \x01\n", 3, "control characters"},
		{"# c\nx:\n  y: |\n  a: b\n z\n", 5, ""},
		{"# c\nx: !!int abc\n", 2, "cannot decode `abc` as a !!int"},
		{"# c\nx: .inf\n", 2, "no JSON form"},
		{"# c\n{a: b}: c\n", 2, "a key of a mapping must be text"},
		{"# c\nx:\n  ? \n  : c\n", 3, "a key of a mapping is empty"},
		{"x: &a\n  y: *a\n", 2, "contains itself"},
		{"x: 1\n<<: 5\n", 2, "map merge requires"},
	} {
		for _, before := range []string{"", "a: 1\n---\n"} {
			docs := Split("f.yaml", before+c.text)
			_, diags := docs[len(docs)-1].Value(Floats)
			line := c.line + strings.Count(before, "\n")
			if len(diags) != 1 || !strings.Contains(diags[0].Summary, c.want) || diags[0].Pos.Line != line {
				t.Errorf("%q:\ngot  %v\nwant f.yaml:%d: … %s …", before+c.text, diags, line, c.want)
			}
		}
	}
}

func TestJSONMistake(t *testing.T) {
	docs := Split("f.json", "{\"kind\": \"Pod\",\n \"a\": tru e,\n \"b\" 1}\n")
	_, diags := docs[0].Value(Floats)
	if len(diags) != 1 || diags[0].Pos.Line != 3 {
		t.Errorf("got %v, want one mistake on line 3", diags)
	}
}

func TestDepthAndAliases(t *testing.T) {
	deep := strings.Repeat("[", 1200) + strings.Repeat("]", 1200)
	if _, diags := Split("f", "a: "+deep+"\n")[0].Value(Floats); !strings.Contains(diags.Error(), "nested more than 1000 levels deep") {
		t.Errorf("a deep document: %v", diags)
	}
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 9; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	if _, diags := Split("f", b.String())[0].Value(Floats); !strings.Contains(diags.Error(), "excessive aliasing") {
		t.Errorf("a billion laughs: %v", diags)
	}
}
