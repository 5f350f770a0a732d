package pattern

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/template"
	"ephor.invalid/ephor/internal/trace"
)

// data is an input document for variables.
type data map[string]any

func (d data) Field(name string) (any, bool, error) { v, ok := d[name]; return v, ok, nil }
func (d data) Value() (any, error)                  { return map[string]any(d), nil }

func matchWith(t *testing.T, pattern string, root data, resource string) (Verdict, error) {
	t.Helper()
	p, diags := Compile(decode(t, pattern), "pattern", nil)
	if diags.HasErrors() {
		t.Fatalf("%s: %v", pattern, diags)
	}
	return p.Match(nil, root, decode(t, resource))
}

func TestVariables(t *testing.T) {
	root := data{
		"user":    "ann",
		"allowed": "9999 | 4000",
		"limit":   5.0,
		"map":     map[string]any{"(a)": "x", "b": "1"},
		"list":    []any{"x*"},
		"label":   "team",
	}
	for _, c := range []struct{ pattern, resource, want string }{
		{`{"owner":"{{ user }}"}`, `{"owner":"ann"}`, "pass"},
		{`{"owner":"{{ user }}"}`, `{"owner":"bob"}`, "fail /owner/ resource value 'bob' does not match 'ann' at path /owner/"},
		{`{"uid":"{{ allowed }}"}`, `{"uid":4000}`, "pass"}, // a value may hold the operator language
		{`{"uid":"!{{ user }}"}`, `{"uid":"ann"}`, "fail /uid/ resource value 'ann' does not match '!ann' at path /uid/"},
		{`{"n":"{{ limit }}"}`, `{"n":5}`, "pass"},
		{`{"n":"<={{ limit }}"}`, `{"n":6}`, "fail /n/ resource value '6' does not match '<=5' at path /n/"},
		{`{"m":"{{ map }}"}`, `{"m":{"a":"x","b":1}}`, "pass"},
		{`{"m":"{{ map }}"}`, `{"m":{"a":"x","b":2}}`, "fail /m/b/ resource value '2' does not match '1' at path /m/b/"},
		{`{"l":"{{ list }}"}`, `{"l":["xa","xb"]}`, "pass"},
		{`{"metadata":{"labels":{"{{ label }}":"?*"}}}`, `{"metadata":{"labels":{"team":"a"}}}`, "pass"},
		{`{"metadata":{"labels":{"{{ label }}":"?*"}}}`, `{"metadata":{"labels":{}}}`, "fail /metadata/labels/team/ resource value '<nil>' does not match '?*' at path /metadata/labels/team/"},
		{`{"a":"\\{{ user }}"}`, `{"a":"{{ user }}"}`, "pass"},
		{`{"items":[{"(name)":"{{ user }}","v":"1"}]}`, `{"items":[{"name":"bob"},{"name":"ann","v":1}]}`, "pass"},
	} {
		v, err := matchWith(t, c.pattern, root, c.resource)
		got := strings.TrimSpace(v.Status.String() + " " + strings.TrimSpace(v.Path+" "+v.Message))
		if err != nil || got != c.want {
			t.Errorf("%s against %s\n got %s %v\nwant %s", c.pattern, c.resource, got, err, c.want)
		}
	}
}

// TestUnresolvableVariableIsAnError tests that it is an error even if an anchor would have skipped the value.
func TestUnresolvableVariableIsAnError(t *testing.T) {
	for pattern, want := range map[string]string{
		`{"spec":{"a":"{{ missing }}"}}`:                     `variable substitution failed: failed to resolve missing at path /spec/a: JMESPath query failed: Unknown key "missing" in path`,
		`{"(kind)":"Pod","spec":[{"=(a)":"{{ missing }}"}]}`: `variable substitution failed: failed to resolve missing at path /spec/0/=(a): JMESPath query failed: Unknown key "missing" in path`,
	} {
		_, err := matchWith(t, pattern, data{}, `{"kind":"Service"}`)
		if err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", pattern, err, want)
		}
	}
}

// rootsOf returns the names that templates read.
func rootsOf(templates []*template.Template) (all []string) {
	for _, t := range templates {
		all = append(all, t.Roots()...)
	}
	return all
}

func TestTemplates(t *testing.T) {
	p, _ := Compile(decode(t, `{"a":"{{ request.object.x }}-{{ element.y }}","{{ key }}":"x","b":["{{ element.z }}"]}`), "p", nil)
	if got := rootsOf(p.Templates()); !slices.Equal(got, []string{"element", "key", "request"}) {
		t.Errorf("roots %v", got)
	}
	if len(p.Templates()) != 1 { // a key with a variable makes the whole map one template
		t.Errorf("%d templates", len(p.Templates()))
	}
	p, _ = Compile(decode(t, `{"a":"{{ x }}","b":[{"c":"{{ y }}","d":"z"}]}`), "p", nil)
	if len(p.Templates()) != 2 {
		t.Errorf("%d templates", len(p.Templates()))
	}
}

func TestReferences(t *testing.T) {
	for _, c := range []struct{ pattern, resource, want string }{
		{`{"limits":{"memory":"1Gi"},"requests":{"memory":"$(./../../limits/memory)"}}`, `{"limits":{"memory":"1Gi"},"requests":{"memory":"1024Mi"}}`, "pass"},
		{`{"limits":{"memory":"1Gi"},"requests":{"memory":"$(<=./../../limits/memory)"}}`, `{"limits":{"memory":"1Gi"},"requests":{"memory":"2Gi"}}`, "fail /requests/memory/"},
		{`{"a":"x*","b":"$(/a)"}`, `{"a":"xa","b":"xb"}`, "pass"},
		{`{"a":5,"b":"$(/a)"}`, `{"a":5,"b":6}`, "fail /b/"},
		{`{"=(a)":"x","b":"$(/a)-$(/c)","c":1}`, `{"b":"x-1","c":1}`, "pass"},
		{`{"l":[{"v":"x"}],"b":"$(/l/0/v)"}`, `{"l":[],"b":"y"}`, "fail /b/"},
		{`{"a":"$(/b)","b":"$(/c)","c":"x"}`, `{"a":"x","b":"x","c":"x"}`, "pass"},
		{`{"a":"\\$(/b)","b":"x"}`, `{"a":"$(/b)","b":"x"}`, "pass"},
		{`{"a":"$(echo hi)"}`, `{"a":"$(echo hi)"}`, "pass"},
		{`{"a":"$(unclosed"}`, `{"a":"$(unclosed"}`, "pass"},
	} {
		check(t, c.pattern, c.resource, c.want)
	}
}

func TestReferencesThatLeadNowhere(t *testing.T) {
	for pattern, want := range map[string]string{
		`{"a":{"b":"$(./../c)"}}`:     "variable substitution failed: NotResolvedReferenceErr,reference $(./../c) not resolved at path /a/b",
		`{"a":"$(/n)","n":null}`:      "variable substitution failed: got nil resolved variable $(/n) at path /a",
		`{"a":"$(/b)","b":"$(/a)"}`:   "variable substitution failed: NotResolvedReferenceErr,reference $(/b) not resolved at path /a",
		`{"a":"$(/l/7)","l":["x"]}`:   "variable substitution failed: NotResolvedReferenceErr,reference $(/l/7) not resolved at path /a",
		`{"a":"$(/l/x/y)","l":["x"]}`: "variable substitution failed: NotResolvedReferenceErr,reference $(/l/x/y) not resolved at path /a",
	} {
		p, diags := Compile(decode(t, pattern), "p", nil)
		_, err := p.Match(nil, nil, map[string]any{})
		if err == nil || err.Error() != want || !diags.HasErrors() {
			t.Errorf("%s\n got %v\nwant %s", pattern, err, want)
		}
	}
}

// TestReferencesThatDouble tests texts that contain the next one twice, so that resolving them all would exhaust the
// memory.
func TestReferencesThatDouble(t *testing.T) {
	doc := map[string]any{"k30": "xxxxxxxx"}
	for i := range 30 {
		next := fmt.Sprintf("$(/k%d)", i+1)
		doc[fmt.Sprintf("k%d", i)] = next + next
	}
	if _, err := ResolveReferences(doc); err == nil || !strings.HasPrefix(err.Error(), "NotResolvedReferenceErr") {
		t.Errorf("%v", err)
	}
}

func TestAlternatives(t *testing.T) {
	for _, c := range []struct {
		pattern, resource string
		status            Status
		passed            int
		want              string
	}{
		{`[{"a":"1"},{"a":"2"}]`, `{"a":2}`, Pass, 1, ""},
		{`[{"a":"1"},{"a":"2"}]`, `{"a":3}`, Fail, -1, "rule r[0] failed at path /a/ rule r[1] failed at path /a/"},
		{`[{"<(a)":"1"},{"a":"2"}]`, `{"a":3}`, Fail, -1, "rule r[1] failed at path /a/"},
		{`[{"a":"1"},{"<(a)":"2"}]`, `{"a":3}`, Fail, -1, "rule r[0] failed at path /a/"},
		{`[{"<(a)":"1"},{"(b)":"2"}]`, `{"a":3}`, Skip, -1,
			"rule r[0] skipped: global anchor mismatch: resource value '3' does not match '1' at path /a/ rule r[1] skipped: " + absent},
		{`[{"a":"1","^(b)":[{"c":"1"}]},{"a":"2"}]`, `{"a":3}`, Fail, -1,
			"rule r[0] failed: resource value '3' does not match '1' at path /a/ rule r[1] failed at path /a/"},
		{`[]`, `{}`, Skip, -1, ""},
	} {
		p, diags := CompileAlternatives(decode(t, c.pattern), "anyPattern", nil)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		got, err := p.Match(nil, nil, decode(t, c.resource))
		if err != nil || got.Status != c.status || got.Passed != c.passed || got.Describe("r") != c.want {
			t.Errorf("%s against %s: %v %d %q %v, want %q", c.pattern, c.resource, got.Status, got.Passed, got.Describe("r"), err, c.want)
		}
	}
	if _, diags := CompileAlternatives(map[string]any{}, "p", nil); len(diags) != 1 || !strings.HasPrefix(diags[0].Summary, "failed to deserialize anyPattern, expect array") {
		t.Errorf("a map: %v", diags)
	}
}

// TestAlternativesAreSubstitutedTogether tests that a variable that cannot be resolved in the second alternative is an
// error even if the first one matches.
func TestAlternativesAreSubstitutedTogether(t *testing.T) {
	p, _ := CompileAlternatives(decode(t, `[{"a":"1"},{"a":"{{ missing }}"}]`), "p", nil)
	_, err := p.Match(nil, data{}, decode(t, `{"a":1}`))
	if err == nil || !strings.Contains(err.Error(), "failed to resolve missing at path /1/a") {
		t.Errorf("%v", err)
	}
	if got := rootsOf(p.Templates()); !slices.Equal(got, []string{"missing"}) || len(p.Templates()) != 1 {
		t.Errorf("roots %v", got)
	}
}

func TestBudgetEndsTheWalk(t *testing.T) {
	list := make([]any, 5000)
	for i := range list {
		list[i] = map[string]any{"v": "x"}
	}
	p, _ := Compile(decode(t, `{"l":[{"(v)":"y"}]}`), "p", nil)
	env := &jmespath.Env{Meter: budget.New(context.Background(), 3000, 1<<20)}
	if _, err := p.Match(env, nil, map[string]any{"l": list}); !errors.Is(err, budget.ErrExhausted) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	env = &jmespath.Env{Meter: budget.New(ctx, 1<<30, 1<<20)}
	if _, err := p.Match(env, nil, map[string]any{"l": list}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestDeepPatternsAreRefused(t *testing.T) {
	var v any = "x"
	for range budget.MaxDepth + 10 {
		v = map[string]any{"a": v}
	}
	if _, diags := Compile(v, "p", nil); !diags.HasErrors() {
		t.Error("accepted")
	}
}

// The paths of the parts of a pattern are bounded together: long keys around one another would take far more memory than the policy.
func TestLongPathsAreRefused(t *testing.T) {
	var v any = "x"
	for range 100 {
		v = map[string]any{strings.Repeat("a", 10_000): v}
	}
	if _, diags := Compile(v, "p", nil); !diags.HasErrors() || !strings.Contains(diags.Error(), "the pattern is too large") {
		t.Errorf("%v", diags)
	}
}

// TestLateNodesAreBounded tests that variables with ever new values do not exhaust the memory.
func TestLateNodesAreBounded(t *testing.T) {
	p, _ := Compile(decode(t, `{"a":"{{ v }}"}`), "p", nil)
	for i := range 10 * maxLateNodes {
		v := strings.Repeat("x", i)
		if got, err := p.Match(nil, data{"v": v + "*"}, map[string]any{"a": v + "y"}); err != nil || got.Status != Pass {
			t.Fatal(got, err)
		}
	}
	if n := len(p.late.nodes); n > maxLateNodes {
		t.Errorf("%d nodes", n)
	}
}

// TestOnePatternForManyGoroutines is for the race detector: all requests share a pattern.
func TestOnePatternForManyGoroutines(t *testing.T) {
	p, _ := Compile(decode(t, `{"a":"{{ v }}","b":"<=1e3","=(c)":[{"(n)":"x","v":"0.5-1.5"}]}`), "p", nil)
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for i := range 200 {
				v := fmt.Sprintf("x%d", (g+i)%100)
				resource := map[string]any{"a": v, "b": "999.5", "c": []any{map[string]any{"n": "x", "v": "1.25"}}}
				if got, err := p.Match(nil, data{"v": v}, resource); err != nil || got.Status != Pass {
					t.Error(got, err)
					return
				}
			}
		})
	}
	group.Wait()
}

// Two variables with the same value are two places of the pattern, and an explanation names the one that does not match.
func TestPlaceOfVariable(t *testing.T) {
	p, diags := Compile(decode(t, `{"a":"{{ x }}","b":"{{ y }}"}`), "pattern", nil)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	log := &trace.Log{}
	log.Begin("p", "r")
	if _, err := p.Match(&jmespath.Env{Trace: log}, data{"x": "v", "y": "v"}, decode(t, `{"a":"v","b":"w"}`)); err != nil {
		t.Fatal(err)
	}
	if got := log.Rules[0].Patterns[0].Node; got != "pattern.b" {
		t.Errorf("the mismatch of b is explained with %s", got)
	}
}
