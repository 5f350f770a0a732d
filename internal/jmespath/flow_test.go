package jmespath

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/value"
)

// onlyRead returns the document with only the parts that are read.
func onlyRead(t testing.TB, doc any, read *value.Fields) any {
	t.Helper()
	v, err := value.NewReader(value.JSON(doc)).AnyOf(read)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const flowDocument = `{"a":{"b":[{"c":1,"d":{"e":[1,2]},"x":"no"},{"c":null,"d":{}},null,[{"c":2,"x":"no"}]],"c":"text","d":{"e":{"c":[]}}},"b":[[1],[2,{"a":3}],{"b":[{"c":4}]}],"c":0,"x":{"y":"no"}}`

// The parts that an expression reads are sufficient for its result, and there are no others.
func TestReads(t *testing.T) {
	for src, want := range map[string]string{
		"a.b[].d.e":                           `{"a":{"b":[{"d":{"e":[1,2]}},{"d":{}},null,[{}]]}}`,
		"a.b[0].c":                            `{"a":{"b":[{"c":1},{"c":null},null,[{"c":2,"x":"no"}]]}}`,
		"a.b[?c == `1`].d.e[]":                `{"a":{"b":[{"c":1,"d":{"e":[1,2]}},{"c":null,"d":{}},null,[{"c":2,"x":"no"}]]}}`,
		"a.c":                                 `{"a":{"c":"text"}}`,
		"a.b[?d].[c, d.z]":                    `{"a":{"b":[{"c":1,"d":{"e":[1,2]}},{"c":null,"d":{}},null,[{"c":2,"x":"no"}]]}}`,
		"[a.d.*.c, a.d.z]":                    `{"a":{"d":{"e":{"c":[]}}}}`,
		"[!(a.d), a.d.z]":                     `{"a":{"d":{"e":{"c":[]}}}}`,
		"[a.d && c, a.d.z]":                   `{"a":{"d":{"e":{"c":[]}}},"c":0}`,
		"length(a.b)":                         `{"a":{"b":[{"c":1,"d":{"e":[1,2]},"x":"no"},{"c":null,"d":{}},null,[{"c":2,"x":"no"}]]}}`,
		"a.[b, d][].c":                        `{"a":{"b":[{"c":1},{"c":null},null,[{"c":2,"x":"no"}]],"d":{}}}`,
		"{k: a.d, l: c}.k.e":                  `{"a":{"d":{"e":{"c":[]}}},"c":0}`,
		"a.d.e || c":                          `{"a":{"d":{"e":{"c":[]}}},"c":0}`,
		"!(a.d.e)":                            `{"a":{"d":{"e":{"c":[]}}}}`,
		"a.d.*.c":                             `{"a":{"d":{"e":{"c":[]}}}}`,
		"sort_by(a.b, &c)[0].x":               `{"a":{"b":[{"c":1,"d":{"e":[1,2]},"x":"no"},{"c":null,"d":{}},null,[{"c":2,"x":"no"}]]}}`,
		"a.b[:2].c | [0]":                     `{"a":{"b":[{"c":1},{"c":null},null,[{"c":2,"x":"no"}]]}}`,
		"c":                                   `{"c":0}`,
		"missing.below":                       `{}`,
		"@":                                   flowDocument,
		"`1`":                                 flowDocument, // no part is named, so none is left out
		strings.Repeat("[a, b][].", 10) + "c": flowDocument,
	} {
		e, err := Compile(src)
		if err != nil {
			t.Fatal(src, err)
		}
		doc, _ := value.DecodeJSON([]byte(flowDocument))
		read := &value.Fields{}
		e.Reads(read)
		kept := onlyRead(t, doc, read)
		if want, _ := value.DecodeJSON([]byte(want)); value.JSON(kept) != value.JSON(want) {
			t.Errorf("%s keeps %s", src, value.JSON(kept))
		}
		sameResult(t, e, doc, kept)
	}
}

func sameResult(t testing.TB, e *Expr, doc, kept any) {
	t.Helper()
	want, wantErr := e.Search(nil, doc)
	got, err := e.Search(nil, kept)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) || err == nil && value.JSON(got) != value.JSON(want) {
		t.Errorf("%s: %s (%v) of all of the document, %s (%v) of what it reads: %s", e, value.JSON(want), wantErr, value.JSON(got), err, value.JSON(kept))
	}
}

// Parts that consist of parts are followed as long as their size is within bounds; beyond that, everything counts as read.
// Each step here doubles the result of the previous one, without a new place in the document.
func TestFlowOfWhatDoubles(t *testing.T) {
	for _, step := range []string{"{a: @, b: @}", "[@, @]", "{a: [@, @], b: {c: @, d: @}}", "({a: @, b: @} || {a: @, b: @})"} {
		e := MustCompile("a" + strings.Repeat(" | "+step, 60))
		read := &value.Fields{}
		read.Member("before")
		e.Reads(read)
		if !read.All() && !read.Get("a").All() {
			t.Errorf("%s: reads %v", step, read)
		}
	}
}

// Elements of a list are read as far as a loop over them reads them.
func TestFlow(t *testing.T) {
	doc, _ := value.DecodeJSON([]byte(flowDocument))
	for list, want := range map[string]string{
		"a.b":      `{"a":{"b":[{"c":1},{"c":null},null,[{"c":2,"x":"no"}]]}}`,
		"a.b[]":    `{"a":{"b":[{"c":1},{"c":null},null,[{"c":2}]]}}`,
		"a.[b, d]": `{"a":{"b":[{"c":1,"d":{"e":[1,2]},"x":"no"},{"c":null,"d":{}},null,[{"c":2,"x":"no"}]],"d":{}}}`,
		"[a.d.e]":  `{"a":{"d":{"e":{"c":[]}}}}`,
		"a.d.e":    `{"a":{"d":{"e":{"c":[]}}}}`,
	} {
		e := MustCompile(list)
		element, read := &value.Fields{}, &value.Fields{}
		element.Member("c").ReadAll()
		e.Flow(read).Elements().ReadFields(element)
		if got, want := value.JSON(onlyRead(t, doc, read)), value.JSON(mustJSON(want)); got != want {
			t.Errorf("%s: keeps %s, want %s", list, got, want)
		}
	}
}

func mustJSON(s string) any {
	v, err := value.DecodeJSON([]byte(s))
	if err != nil {
		panic(err)
	}
	return v
}

// grow creates an expression of random parts.
func grow(r *rand.Rand, depth int) string {
	names := []string{"a", "b", "c", "d", "e"}
	name := names[r.IntN(len(names))]
	if depth <= 0 {
		return []string{name, "@", name, name, "`1`", "`{\"a\":[]}`", "'s'"}[r.IntN(7)]
	}
	left, right := func() string { return grow(r, depth-1) }, func() string { return grow(r, depth-1) }
	switch r.IntN(22) {
	case 0, 1, 2, 3, 4:
		return left() + "." + name
	case 5, 6:
		return left() + "[]"
	case 7:
		return left() + "[*]." + name
	case 8:
		return left() + "[?" + right() + "]"
	case 9:
		return left() + "[0]"
	case 10:
		return left() + "[1:]"
	case 11:
		return left() + ".*." + name
	case 12:
		return left() + ".[" + name + ", " + right() + "]"
	case 13:
		return "{a: " + left() + ", b: " + right() + "}"
	case 14:
		return "(" + left() + " || " + right() + ")"
	case 15:
		return "(" + left() + " && " + right() + ")"
	case 16:
		return "!" + left()
	case 17:
		return "(" + left() + " == " + right() + ")"
	case 18:
		return "(" + left() + " | " + right() + ")"
	case 19:
		return "length(" + left() + ")"
	case 20:
		return "map(&" + right() + ", " + left() + ")"
	}
	return "not_null(" + left() + ", " + right() + ")"
}

// plant creates a document of random parts.
func plant(r *rand.Rand, depth int) any {
	if depth <= 0 {
		return []any{nil, true, "s", int64(1), "", map[string]any{}, []any{}}[r.IntN(7)]
	}
	if r.IntN(3) == 0 {
		list := make([]any, r.IntN(4))
		for i := range list {
			list[i] = plant(r, depth-1-r.IntN(2))
		}
		return list
	}
	object := map[string]any{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if r.IntN(3) > 0 {
			object[name] = plant(r, depth-1-r.IntN(2))
		}
	}
	return object
}

// For any expression, the parts of a document that it reads are sufficient for its result.
func FuzzReads(f *testing.F) {
	for i := range 2000 {
		f.Add(uint64(i), uint64(i*7))
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		r := rand.New(rand.NewPCG(a, b))
		e, err := Compile(grow(r, 1+r.IntN(6)))
		if err != nil {
			return
		}
		doc := plant(r, 5)
		read := &value.Fields{}
		e.Reads(read)
		sameResult(t, e, doc, onlyRead(t, doc, read))
	})
}
