package pattern

import (
	"testing"

	"ephor.invalid/ephor/internal/value"
)

// decode decodes JSON as the cluster does: whole numbers as int64.
func decode(t testing.TB, s string) any {
	t.Helper()
	v, err := value.DecodeJSON([]byte(s))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return v
}

// check compiles pattern, matches it with resource and compares the verdict, written `status path message`.
func check(t *testing.T, pattern, resource, want string) {
	t.Helper()
	p, diags := Compile(decode(t, pattern), "pattern", nil)
	if diags.HasErrors() {
		t.Errorf("%s: %v", pattern, diags)
		return
	}
	v, err := p.Match(nil, nil, decode(t, resource))
	if err != nil {
		t.Errorf("%s against %s: %v", pattern, resource, err)
		return
	}
	got := v.Status.String()
	if v.Path != "" {
		got += " " + v.Path
	}
	if v.Status == Skip || v.Status == Error {
		got += " " + v.Message
	}
	if got != want {
		t.Errorf("%s against %s\n got %s\nwant %s", pattern, resource, got, want)
	}
}

const absent = "conditional anchor mismatch: conditional anchor key doesn't exist in the resource"

// TestAnchors is the table of the policy language.
func TestAnchors(t *testing.T) {
	check(t, `{"(a)":"x","b":"1"}`, `{"b":"2"}`, "skip "+absent)
	check(t, `{"(a)":"x","b":"1"}`, `{"a":"x","b":"1"}`, "pass")
	check(t, `{"(a)":"x","b":"1"}`, `{"a":"x","b":"2"}`, "fail /b/")
	check(t, `{"(a)":"x","b":"1"}`, `{"a":"y","b":"2"}`, "skip conditional anchor mismatch: resource value 'y' does not match 'x' at path /a/")

	check(t, `{"=(a)":"x"}`, `{}`, "pass")
	check(t, `{"=(a)":"x"}`, `{"a":"x"}`, "pass")
	check(t, `{"=(a)":"x"}`, `{"a":"y"}`, "fail /a/")

	check(t, `{"^(a)":[{"n":"x"}]}`, `{"a":[{"n":"y"},{"n":"x"}]}`, "pass")
	check(t, `{"^(a)":[{"n":"x"}]}`, `{"a":[{"n":"y"}]}`, "fail /a/")
	check(t, `{"^(a)":[{"n":"x"}]}`, `{"a":[]}`, "fail /a/")
	check(t, `{"^(a)":[{"n":"x"}]}`, `{}`, "pass")
	check(t, `{"^(a)":[{"n":"x"},{"n":"y"}]}`, `{"a":[{"n":"y"}]}`, "fail /a/")
	check(t, `{"^(a)":[{"n":"x"},{"n":"y"}]}`, `{"a":[{"n":"y"},{"n":"x"}]}`, "pass")

	check(t, `{"X(a)":"x"}`, `{}`, "pass")
	check(t, `{"X(a)":"x"}`, `{"a":"x"}`, "fail /a/")
	check(t, `{"X(a)":"x"}`, `{"a":"y"}`, "fail /a/")
	check(t, `{"X(a)":"x"}`, `{"a":null}`, "fail /a/")

	check(t, `{"<(a)":"x","b":"1"}`, `{"b":"1"}`, "pass")
	check(t, `{"<(a)":"x","b":"1"}`, `{"a":"x","b":"2"}`, "fail /b/")
	check(t, `{"<(a)":"x","b":"1"}`, `{"a":"y","b":"2"}`, "skip global anchor mismatch: resource value 'y' does not match 'x' at path /a/")
}

func TestConditionWithMap(t *testing.T) {
	p := `{"(status)":{"(selector)":"*type=monitoring*"},"spec":{"replicas":"<9"}}`
	check(t, p, `{"status":{"selector":"app=x,type=monitoring"},"spec":{"replicas":9}}`, "fail /spec/replicas/")
	check(t, p, `{"status":{"selector":"app=x,type=monitoring"},"spec":{"replicas":8}}`, "pass")
	check(t, p, `{"status":{"selector":"app=x"},"spec":{"replicas":9}}`,
		"skip conditional anchor mismatch: conditional anchor mismatch: resource value 'app=x' does not match '*type=monitoring*' at path /status/selector/")
	check(t, p, `{"status":{},"spec":{"replicas":9}}`, "skip conditional anchor mismatch: "+absent)
}

// TestElementsThatConditionsSkip tests that skipped elements do not count, unless all elements are skipped.
func TestElementsThatConditionsSkip(t *testing.T) {
	p := `{"c":[{"(i)":"!foo*","p":"false"}]}`
	check(t, p, `{"c":[{"i":"foo"},{"i":"bar","p":false}]}`, "pass")
	check(t, p, `{"c":[{"i":"foo"},{"i":"bar","p":true}]}`, "fail /c/1/p/")
	check(t, p, `{"c":[{"i":"foo1"},{"i":"foo2"}]}`, "skip conditional anchor mismatch: resource value 'foo1' does not match '!foo*' at path /c/0/i/; "+
		"conditional anchor mismatch: resource value 'foo2' does not match '!foo*' at path /c/1/i/")
	check(t, p, `{"c":[]}`, "pass")
	check(t, p, `{}`, "fail /c/")
}

// TestSkippedListsAreJoined tests that optional lists of which none applies skip the rule with all their reasons, and
// that one that applies is enough to continue.
func TestSkippedListsAreJoined(t *testing.T) {
	p := `{"=(c)":[{"(i)":"x","p":"1"}],"=(d)":[{"(i)":"x","p":"1"}]}`
	check(t, p, `{"c":[{"i":"y"}],"d":[{"i":"z"}]}`, "skip conditional anchor mismatch: resource value 'y' does not match 'x' at path /c/0/i/; "+
		"conditional anchor mismatch: resource value 'z' does not match 'x' at path /d/0/i/")
	check(t, p, `{"c":[{"i":"y"}],"d":[{"i":"x","p":1}]}`, "pass")
	check(t, p, `{"c":[{"i":"y"}],"d":[{"i":"x","p":2}]}`, "fail /d/0/p/")
	check(t, p, `{"c":[{"i":"y"}]}`, "pass") // an absent optional key counts as a match
}

// TestConditionOutweighsOtherAnchors tests that if a condition of the map itself does not hold, mismatches of other
// first-phase keys do not matter, but their skips are still listed.
func TestConditionOutweighsOtherAnchors(t *testing.T) {
	const off = "skip conditional anchor mismatch: resource value 'n' does not match 'y' at path /a/"
	check(t, `{"(a)":"y","=(b)":"1"}`, `{"a":"n","b":1}`, off)
	check(t, `{"(a)":"y","=(b)":"1"}`, `{"a":"n","b":2}`, off)
	check(t, `{"(a)":"y","X(b)":"1"}`, `{"a":"n","b":2}`, off)
	check(t, `{"(a)":"y","^(b)":[{"c":"1"}]}`, `{"a":"n","b":[]}`, off)
	check(t, `{"(a)":"y","=(b)":[{"<(c)":"1"}]}`, `{"a":"n","b":[{"c":2}]}`,
		off+"; global anchor mismatch: resource value '2' does not match '1' at path /b/0/c/")
}

// TestMissingAnchorKeyHidesThePath tests that if the pattern fails and no map of the compared resource has a condition
// or existence key, the result is an error without a path. Negations keep their path.
func TestMissingAnchorKeyHidesThePath(t *testing.T) {
	check(t, `{"a":"1","^(b)":[{"c":"1"}]}`, `{"a":2}`, "error resource value '2' does not match '1' at path /a/")
	check(t, `{"a":"1","^(b)":[{"c":"1"}]}`, `{"a":2,"b":[{"c":1}]}`, "fail /a/")
	check(t, `{"X(a)":"1","^(b)":[{"c":"1"}]}`, `{"a":2}`, "fail /a/")
	check(t, `{"^(l)":[{"(n)":"x","v":"1"}]}`, `{"l":[{"v":1}]}`, "error existence anchor validation failed at path /l/")
	check(t, `{"^(l)":[{"(n)":"x","v":"1"}]}`, `{"l":[{"v":1},{"n":"y"}]}`, "fail /l/")
}

// TestOrderOfKeys tests the order of keys without first-phase anchors: first those with anchors inside, in descending
// order, then the plain ones in ascending order.
func TestOrderOfKeys(t *testing.T) {
	r := `{"a":{"k":1},"b":{"k":1},"c":1,"d":1}`
	check(t, `{"a":{"=(k)":"2"},"b":{"=(k)":"2"},"c":"2","d":"2"}`, r, "fail /b/k/")
	check(t, `{"a":{"=(k)":"2"},"b":{"=(k)":"1"},"c":"2","d":"2"}`, r, "fail /a/k/")
	check(t, `{"a":{"=(k)":"1"},"b":{"=(k)":"1"},"c":"2","d":"2"}`, r, "fail /c/")
	check(t, `{"<(c)":"2","d":{"=(k)":"2"}}`, `{"c":1,"d":{"k":1}}`, "fail /d/k/")
}

func TestMapsAndLists(t *testing.T) {
	check(t, `{"a":{}}`, `{"a":{"b":1}}`, "pass")
	check(t, `{"a":{"b":"*"}}`, `{"a":{}}`, "fail /a/")
	check(t, `{"a":{"b":"x"}}`, `{"a":{}}`, "fail /a/b/")
	check(t, `{"a":{"b":"x"}}`, `{"a":1}`, "fail /a/")
	check(t, `{"a":{"b":"x"}}`, `{}`, "fail /a/")
	check(t, `{"a":[]}`, `{"a":[]}`, "fail /a/")
	check(t, `{"a":["x*"]}`, `{"a":["x","xy"]}`, "pass")
	check(t, `{"a":["x*"]}`, `{"a":["x","y"]}`, "fail /a/")
	check(t, `{"a":["x*","never looked at"]}`, `{"a":["x"]}`, "pass")
	check(t, `{"a":[{"b":"1"},{"never":"looked at"}]}`, `{"a":[{"b":1}]}`, "pass")
	check(t, `{"a":[{"b":"1"}]}`, `{"a":[{"b":1},{"b":2}]}`, "fail /a/1/b/")
	check(t, `{"a":[{"b":"1"}]}`, `{"a":[1]}`, "fail /a/0/")
	check(t, `{"a":"100-200 | 500-600"}`, `{"a":[0]}`, "fail /a/")
	check(t, `{"a":"100-200 | 500-600"}`, `{"a":[100,550]}`, "pass")
	check(t, `{"a":[["x"],["y"]]}`, `{"a":[["x"],["y"],["z"]]}`, "pass")
	check(t, `{"a":[["x"],["y"]]}`, `{"a":[["x"],["z"]]}`, "fail /a/1/")
}

// TestWildcardsInMetadataKeys tests that keys of labels and annotations stand for the first actual key that they match.
func TestWildcardsInMetadataKeys(t *testing.T) {
	p := `{"metadata":{"labels":{"app.*/name":"web"}}}`
	check(t, p, `{"metadata":{"labels":{"app.k8s.io/name":"web"}}}`, "pass")
	check(t, p, `{"metadata":{"labels":{"app.k8s.io/name":"db"}}}`, "fail /metadata/labels/app.k8s.io/name/")
	check(t, p, `{"metadata":{"labels":{"x":"y"}}}`, "fail /metadata/labels/app.*/name/")
	check(t, p, `{"metadata":{"labels":{"app.k8s.io/name":null}}}`, "fail /metadata/labels/app.*/name/")
	check(t, p, `{"metadata":{}}`, "fail /metadata/labels/")
	anchored := `{"spec":{"=(metadata)":{"=(annotations)":{"=(apparmor/*)":"runtime/default"}}}}`
	check(t, anchored, `{"spec":{"metadata":{"annotations":{"apparmor/c":"unconfined"}}}}`, "fail /spec/metadata/annotations/apparmor/c/")
	check(t, anchored, `{"spec":{"metadata":{"annotations":{"other":"unconfined"}}}}`, "pass")
	check(t, `{"data":{"labels":{"a*":"x"}}}`, `{"data":{"labels":{"ab":"x"}}}`, "fail /data/labels/a*/")
}

// TestTextOfTheResourceIsNoSkip tests that a value with the words of a skip does not turn a failure into a skip. Kyverno
// searches its errors for these words.
func TestTextOfTheResourceIsNoSkip(t *testing.T) {
	check(t, `{"a":"x"}`, `{"a":"conditional anchor mismatch"}`, "fail /a/")
}

func TestMistakes(t *testing.T) {
	for pattern, want := range map[string]string{
		`{"spec":{"+(a)":"x"}}`: "p.spec.+(a): unsupported anchor +(a)",
		`{"^(a)":"x"}`:          "p.^(a): existence anchor should have value of type list",
		`{"^(a)":[]}`:           "p.^(a): existence anchor: should have at least one value",
		`{"a":"$(./../b)"}`:     "p: NotResolvedReferenceErr,reference $(./../b) not resolved at path /a",
	} {
		_, diags := Compile(decode(t, pattern), "p", nil)
		if len(diags) != 1 || diags[0].Path+": "+diags[0].Summary != want {
			t.Errorf("%s: %v\nwant %s", pattern, diags, want)
		}
	}
	_, diags := Compile(map[string]any{"a": struct{}{}}, "p", nil)
	if len(diags) != 1 || diags[0].Summary != "error at '/a', pattern contains unknown type" {
		t.Errorf("unknown type: %v", diags)
	}
}
