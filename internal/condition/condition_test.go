package condition

import (
	"errors"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/value"
)

// fields is a root of constant fields that counts the lookups of each.
type fields struct {
	values map[string]any
	asked  map[string]int
}

func (f fields) Field(name string) (any, bool, error) {
	f.asked[name]++
	v, ok := f.values[name]
	return v, ok, nil
}

func (f fields) Value() (any, error) { return f.values, nil }

func newRoot() fields {
	return fields{asked: map[string]int{}, values: map[string]any{
		"yes": "y", "one": 1.0, "count": int64(3), "list": []any{"a", "b"}, "names": []any{"nginx", "node"},
		"request": map[string]any{"operation": "CREATE"},
	}}
}

func decode(tb testing.TB, s string) any {
	tb.Helper()
	v, err := value.DecodeJSON([]byte(s))
	if err != nil {
		tb.Fatalf("%s: %v", s, err)
	}
	return v
}

// Conditions that hold, do not hold, and cannot be evaluated; messages distinguish them.
const (
	yes   = `{"key": "{{ yes }}", "operator": "Equals", "value": "y", "message": "yes"}`
	yes2  = `{"key": "{{ one }}", "operator": "Equals", "value": 1, "message": "yes {{ yes }}"}`
	no    = `{"key": "{{ yes }}", "operator": "Equals", "value": "n", "message": "no"}`
	no2   = `{"key": "{{ one }}", "operator": "GreaterThan", "value": 1, "message": "no {{ list }}"}`
	quiet = `{"key": 1, "operator": "Equals", "value": 1}`
	fault = `{"key": "{{ nope }}", "operator": "Equals", "value": 1, "message": "fault"}`
)

func TestBlocks(t *testing.T) {
	for _, c := range []struct {
		name, source string
		want         bool
		message      string
	}{
		{"nothing", `null`, true, ""},
		{"empty map", `{}`, true, ""},
		{"empty list", `[]`, true, ""},
		{"empty any", `{"any": []}`, false, ""},
		{"empty all", `{"all": []}`, true, ""},
		{"empty any beside all", `{"any": [], "all": [` + yes + `]}`, false, ""},
		{"absent any", `{"any": null, "all": [` + yes + `]}`, true, "yes"},
		{"any ends at the first that holds", `{"any": [` + no + `,` + yes + `,` + fault + `]}`, true, "yes"},
		{"any without success tells all", `{"any": [` + no + `,` + no2 + `]}`, false, `no; no ["a","b"]`},
		{"all holds", `{"all": [` + yes + `,` + quiet + `,` + yes2 + `]}`, true, "yes; yes y"},
		{"all ends at the first that does not", `{"all": [` + yes + `,` + no + `,` + fault + `]}`, false, "no"},
		{"both", `{"any": [` + yes + `], "all": [` + yes2 + `]}`, true, "yes; yes y"},
		{"any goes first", `{"any": [` + no + `], "all": [` + no2 + `,` + fault + `]}`, false, "no"},
		{"old list", `[` + yes + `,` + yes2 + `]`, true, "yes;yes y"},
		{"old list fails", `[` + yes + `,` + no + `,` + fault + `]`, false, "no"},
		{"list of blocks", `[{"any": [` + yes + `]}, {"all": [` + yes2 + `]}]`, true, "yes; yes y"},
		{"list of blocks fails", `[{"any": [` + yes + `]}, {"all": [` + no + `]}, {"all": [` + fault + `]}]`, false, "no"},
		{"message that cannot be resolved", `[{"key": 1, "operator": "Equals", "value": 1, "message": "is {{ nope }}"}]`, true, "is {{ nope }}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, diags := Compile(decode(t, c.source), "p", nil)
			if len(diags) > 0 {
				t.Fatal(diags)
			}
			got, err := set.Eval(nil, newRoot())
			if err != nil {
				t.Fatal(err)
			}
			if got.OK != c.want || got.Message() != c.message {
				t.Errorf("got %v %q, want %v %q", got.OK, got.Message(), c.want, c.message)
			}
		})
	}
}

// An `any` block that fails decides, but a variable in `all` that cannot be resolved is an error nevertheless.
func TestUnknownKeyAfterFailedAny(t *testing.T) {
	set, diags := Compile(decode(t, `{"any": [{"key": 1, "operator": "Equals", "value": 2}], "all": [{"key": "{{ nope }}", "operator": "Equals", "value": 1}]}`), "p", nil)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	var unresolved *SubstitutionError
	if v, err := set.Eval(nil, newRoot()); !errors.As(err, &unresolved) {
		t.Errorf("got %v, %v, want a SubstitutionError", v, err)
	}
}

// A context entry that the verdict does not need is never loaded.
func TestLazy(t *testing.T) {
	set, _ := Compile(decode(t, `{"any": [`+yes+`, {"key": "{{ list }}", "operator": "AnyIn", "value": "{{ names }}"}]}`), "p", nil)
	root := newRoot()
	if v, err := set.Eval(nil, root); err != nil || !v.OK {
		t.Fatal(v, err)
	}
	if root.asked["list"] != 0 || root.asked["names"] != 0 {
		t.Errorf("asked for %v", root.asked)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{`[` + fault + `]`, `failed to substitute variables in condition key: failed to resolve nope at path : JMESPath query failed: Unknown key "nope" in path`},
		{`[{"key": "a", "operator": "AnyIn", "value": ["x", "{{ nope }}"]}]`, `failed to substitute variables in condition value: failed to resolve nope at path /1: JMESPath query failed: Unknown key "nope" in path`},
		{`[{"key": "a", "operator": "AnyIn"}]`, missingMember},
		{`[{"key": "a", "operator": "Sure", "value": 1}]`, invalidOperator()},
		{`7`, errMalformed.Error()},
	} {
		set, _ := Compile(decode(t, c.source), "p", nil)
		if v, err := set.Eval(nil, newRoot()); err == nil || err.Error() != c.want || v.OK {
			t.Errorf("%s\ngot  %v\nwant %s", c.source, err, c.want)
		}
	}
	set, _ := Compile(decode(t, `[`+fault+`]`), "p", nil)
	_, err := set.Eval(nil, newRoot())
	var unknown *jmespath.UnknownKeyError
	if !errors.As(err, &unknown) {
		t.Errorf("%v holds no UnknownKeyError", err)
	}
}

func TestBudget(t *testing.T) {
	list := make([]any, 1000)
	for i := range list {
		list[i] = "x"
	}
	set, _ := Compile([]any{map[string]any{"key": list, "operator": "AllNotIn", "value": []any{"a", "b*"}}}, "p", nil)
	env := &jmespath.Env{Meter: budget.New(t.Context(), 500, 1<<20)}
	if _, err := set.Eval(env, newRoot()); !errors.Is(err, budget.ErrExhausted) {
		t.Errorf("got %v", err)
	}
}

func TestDiagnostics(t *testing.T) {
	for _, c := range []struct{ source, path, want string }{
		{`{"any": [{"key": "a", "value": "b"}]}`, "p.any[0]", missingMember},
		{`{"any": [{"keys": "a", "operator": "Equals", "value": "b"}]}`, "p.any[0]", missingMember},
		{`{"all": [` + yes + `, {"key": "a", "operator": "Is", "value": "b"}]}`, "p.all[1].operator", invalidOperator()},
		{`[{"key": "a", "operator": "equals", "value": "b"}]`, "p[0].operator", invalidOperator()},
		{`{"some": []}`, "p.some", errMalformed.Error()},
		{`{"all": {}}`, "p.all", errMalformed.Error()},
		{`"x"`, "p", errMalformed.Error()},
		{`[{"all": []}, 1]`, "p[1]", errMalformed.Error()},
		{`[{"key": "{{ a[ }}", "operator": "Equals", "value": "b"}]`, "p[0].key", "failed to resolve a[ at path : incorrect query a[: "},
		{`[{"key": "{{request.operation}}", "operator": "AnyIn", "value": ["CREATE", "PATCH"]}]`, "p[0].value",
			"unknown value 'PATCH' found under the 'value' field. Only the following values are allowed: [CREATE, UPDATE, DELETE, CONNECT]"},
		{`[{"key": "{{ request.operation }}", "operator": "Equals", "value": "create"}]`, "p[0].value",
			"unknown value 'create' found under the 'value' field. Only the following values are allowed: [CREATE, UPDATE, DELETE, CONNECT]"},
		{`[{"key": "{{ request.operation }}", "operator": "AnyIn", "value": ["CREATE", 1]}]`, "p[0].value[1]",
			"'value[1]' found to be of the type number. The provided values are expected to be strings"},
	} {
		set, diags := Compile(decode(t, c.source), "p", nil)
		if len(diags) != 1 || diags[0].Path != c.path || !strings.HasPrefix(diags[0].Summary, c.want) {
			t.Errorf("%s\ngot  %v\nwant %s: %s", c.source, diags, c.path, c.want)
		}
		set.Eval(nil, newRoot()) // must not panic
	}
	for _, source := range []string{
		`[{"key": "{{request.operation}}", "operator": "AnyIn", "value": []}]`,
		`[{"key": "{{request.operation || 'BACKGROUND'}}", "operator": "Equals", "value": "BACKGROUND"}]`,
		`[{"key": "{{request.operation}}", "operator": "Equals", "value": "{{ x }}"}]`,
		`[{"key": null, "operator": "Equals", "value": null}]`,
	} {
		if _, diags := Compile(decode(t, source), "p", nil); len(diags) > 0 {
			t.Errorf("%s: %v", source, diags)
		}
	}
}

// TestOperatorCase tests that policy validation requires exact names, and that evaluation ignores case.
func TestOperatorCase(t *testing.T) {
	set, diags := Compile(decode(t, `[{"key": "{{ one }}", "operator": "gREATERthanORequals", "value": 1}]`), "p", nil)
	if len(diags) != 1 || diags[0].Hint != "write GreaterThanOrEquals" {
		t.Errorf("diagnostics: %v", diags)
	}
	if v, err := set.Eval(nil, newRoot()); err != nil || !v.OK {
		t.Error(v, err)
	}
}

func TestDeprecated(t *testing.T) {
	set, diags := Compile(decode(t, `{"any": [{"key": "a", "operator": "In", "value": ["a"]}, {"key": "a", "operator": "NotIn", "value": ["a"]},
		{"key": "1s", "operator": "DurationLessThan", "value": "2s"}]}`), "p", nil)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	var got []string
	for _, d := range set.Deprecated() {
		got = append(got, d.Path+": "+d.Summary)
	}
	want := []string{
		`p.any[0].operator: Operator In has been deprecated and will be removed soon. Use these instead: ["AllIn" "AnyIn"]`,
		`p.any[1].operator: Operator NotIn has been deprecated and will be removed soon. Use these instead: ["AllNotIn" "AnyNotIn"]`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q", got)
	}
}

func TestValuesWithVariables(t *testing.T) {
	for source, want := range map[string]bool{
		`[{"key": "a", "operator": "AnyIn", "value": "{{ list }}"}]`:                                     true,
		`[{"key": "{{ list }}", "operator": "AllIn", "value": "{{ names }}"}]`:                           false,
		`[{"key": "{{ count }}", "operator": "Equals", "value": "{{ count }}"}]`:                         true,
		`[{"key": "{{ count }}", "operator": "GreaterThan", "value": "{{ one }}"}]`:                      true,
		`[{"key": "{{ names }}", "operator": "AllIn", "value": ["n*"]}]`:                                 true,
		`[{"key": ["{{ yes }}", "x"], "operator": "Equals", "value": ["y", "x"]}]`:                       true,
		`[{"key": "{{ request.operation }}", "operator": "AnyNotIn", "value": ["UPDATE", "{{ yes }}"]}]`: true,
	} {
		set, diags := Compile(decode(t, source), "p", nil)
		if len(diags) > 0 && !strings.Contains(source, "request.operation") {
			t.Fatal(source, diags)
		}
		if v, err := set.Eval(nil, newRoot()); err != nil || v.OK != want {
			t.Errorf("%s: %v %v", source, v, err)
		}
	}
}

func TestRoots(t *testing.T) {
	set, _ := Compile(decode(t, `{"any": [`+yes+`,`+no2+`], "all": [{"key": "{{ b.c }}", "operator": "Equals", "value": ["{{ a }}"], "message": "{{ m }}"}]}`), "p", nil)
	if got := strings.Join(set.Roots(), " "); got != "a b list m one yes" {
		t.Errorf("roots %q", got)
	}
	if len(set.Templates()) != 6 {
		t.Errorf("%d templates", len(set.Templates()))
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{`{"any": [` + yes + `]}`, `[` + no2 + `]`, `[{"all": []}]`, `{"all": null}`, `[[]]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := value.DecodeJSON([]byte(s))
		if err != nil {
			t.Skip()
		}
		set, _ := Compile(v, "p", nil)
		env := &jmespath.Env{Meter: budget.New(t.Context(), 100_000, 1<<20)}
		set.Eval(env, newRoot())
	})
}

func FuzzOperators(f *testing.F) {
	f.Add(`"1h"`, `"60m"`)
	f.Add(`["a", 1]`, `"1-5"`)
	f.Add(`"1e999999999"`, `"1"`)
	f.Add(`-1e300`, `"1h"`)
	f.Fuzz(func(t *testing.T, k, v string) {
		key, err := value.DecodeJSON([]byte(k))
		val, err2 := value.DecodeJSON([]byte(v))
		if err != nil || err2 != nil {
			t.Skip()
		}
		for _, op := range Operators() {
			op.Evaluate(key, val)
		}
		if key != nil && equals.Evaluate(key, val) == notEquals.Evaluate(key, val) {
			t.Errorf("%s neither equals nor differs from %s", k, v)
		}
	})
}
