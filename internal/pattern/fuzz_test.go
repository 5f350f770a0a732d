package pattern

import (
	"testing"

	"ephor.invalid/ephor/internal/value"
)

// FuzzMatch compiles any JSON as a pattern and matches any JSON with it: nothing panics, and a verdict has the documented path
// and message.
func FuzzMatch(f *testing.F) {
	for _, s := range [][2]string{
		{`{"spec":{"=(containers)":[{"(image)":"!*/foo:*.*.*","^(l)":[{"a":"1-3"}],"X(b)":null,"<(c)":">=1 & <10Gi"}]}}`, `{"spec":{"containers":[{"image":"x/foo:1.2.3","l":[{"a":2}],"c":"1Gi"}]}}`},
		{`{"metadata":{"labels":{"=(a*)":"?*"}}}`, `{"metadata":{"labels":{"ab":null,"a":"x"}}}`},
		{`{"a":"$(<=./../b)","b":"{{ x }}","{{ y }}":1}`, `{"a":1e999,"b":[[]]}`},
		{`[["x"],["y"]]`, `[[1],[2]]`},
		{`{"+(a)":1,"^(a)":{},"()":"","X(":0}`, `{"a":[{}]}`},
	} {
		f.Add(s[0], s[1])
	}
	root := data{"x": "a | b", "y": map[string]any{"(z)": []any{nil}}}
	f.Fuzz(func(t *testing.T, pattern, resource string) {
		raw, err := value.DecodeJSON([]byte(pattern))
		if err != nil {
			return
		}
		doc, err := value.DecodeJSON([]byte(resource))
		if err != nil {
			return
		}
		p, _ := Compile(raw, "pattern", nil)
		v, err := p.Match(nil, root, doc)
		if err != nil {
			return
		}
		if (v.Status == Fail) != (v.Path != "") || v.Status == Pass && v.Message != "" {
			t.Errorf("%s against %s: %+v", pattern, resource, v)
		}
		a, _ := CompileAlternatives([]any{raw, raw}, "anyPattern", nil)
		if c, err := a.Match(nil, root, doc); err == nil && (c.Status == Pass) != (v.Status == Pass) {
			t.Errorf("%s against %s: %v alone, %v twice", pattern, resource, v.Status, c.Status)
		}
	})
}
