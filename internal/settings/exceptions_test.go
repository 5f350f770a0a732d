package settings

import (
	"strings"
	"testing"
)

func TestExceptions(t *testing.T) {
	for _, c := range []struct{ text, mistake string }{
		{`{}`, ""},
		{`{"warnDays": 14, "compare": true, "requiredAnnotations": ["example.com/ticket"], "maxDays": 30, "users": ["a"], "groups": ["b"], "message": "m"}`, ""},
		{`{"requiredAnnotations": ["Example.com/Ticket"]}`, ""},
		{`{"requiredAnotations": ["a"]}`, `unknown field "requiredAnotations"`},
		{`{"warnDays": -1}`, "must not be negative"},
		{`{"requiredAnnotations": ["a b"]}`, `"a b" is not an annotation`},
		{`[]`, "not a JSON object"},
		{`{"warnDays": 14}, "users": ["a"]}`, "something follows the object"},
		{`{"warnDays": 14} {"users": ["a"]}`, "something follows the object"},
	} {
		s, diags := Parse(map[string]string{"exceptions": c.text})
		got := ""
		for _, d := range diags {
			got += d.String()
		}
		if (c.mistake == "") != (got == "") || !strings.Contains(got, c.mistake) {
			t.Errorf("%s: %q, want %q", c.text, got, c.mistake)
		}
		if c.mistake != "" && (s.Exceptions.WarnDays != 0 || len(s.Exceptions.RequiredAnnotations) > 0) {
			t.Errorf("%s: a part of it applies", c.text)
		}
	}
	if !(&Exceptions{}).Permits("x", nil) || (&Exceptions{Users: []string{"a*"}}).Permits("x", []string{"a"}) || !(&Exceptions{Groups: []string{"a*"}}).Permits("x", []string{"abc"}) {
		t.Error("who may write exceptions")
	}
}
