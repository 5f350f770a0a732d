package pattern

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"ephor.invalid/ephor/internal/value"
)

const readsResource = `{"kind":"Pod","metadata":{"labels":{"app":"web"},"name":"a"},"spec":{"containers":[{"image":"a:1","name":"a","ports":[{"port":1}]},{"image":"b"}],"hostPID":true,"volumes":[]}}`

// onlyRead returns the resource with only the fields that the pattern reads.
func onlyRead(t testing.TB, pattern, resource any) any {
	t.Helper()
	var read value.Fields
	Reads(pattern, &read)
	v, err := value.NewReader(value.JSON(resource)).AnyOf(&read)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestReads(t *testing.T) {
	for pattern, want := range map[string]string{
		`{"spec":{"=(hostPID)":"false"}}`:                                     `{"spec":{"hostPID":true}}`,
		`{"spec":{"containers":[{"name":"?*"}]}}`:                             `{"spec":{"containers":[{"name":"a"},{}]}}`,
		`{"spec":{"^(containers)":[{"(image)":"b","X(ports)":"null"}]}}`:      `{"spec":{"containers":[{"image":"a:1","ports":[{"port":1}]},{"image":"b"}]}}`,
		`{"<(kind)":"Pod","metadata":{"name":"a"}}`:                           `{"kind":"Pod","metadata":{"name":"a"}}`,
		`{"metadata":{"labels":{"app*":"?*"}}}`:                               `{"metadata":{"labels":{"app":"web"}}}`,
		`{"metadata":{"{{ request.name }}":"x"}}`:                             `{"metadata":{"labels":{"app":"web"},"name":"a"}}`,
		`{"spec":{"containers":"{{ request.object.spec.containers }}"}}`:      `{"spec":{"containers":[{"image":"a:1","name":"a","ports":[{"port":1}]},{"image":"b"}]}}`,
		`{"spec":{"containers":[{"image":"$(./../name)","name":"a"}],"x":1}}`: `{"spec":{"containers":[{"image":"a:1","name":"a"},{"image":"b"}]}}`,
		`{"metadata":{}}`: `{"metadata":{"labels":{"app":"web"},"name":"a"}}`,
		`"?*"`:            readsResource,
	} {
		got := value.JSON(onlyRead(t, decoded(t, pattern), decoded(t, readsResource)))
		if got != want {
			t.Errorf("%s keeps %s", pattern, got)
		}
	}
}

// If a pattern names very many members of a place, they are not tracked member by member.
func TestReadsOfLargePatterns(t *testing.T) {
	large := map[string]any{}
	for i := range 100_000 {
		large[fmt.Sprint("k", i)] = "?*"
	}
	var read value.Fields
	Reads(map[string]any{"data": large}, &read)
	if data := read.Get("data"); !data.All() || read.All() {
		t.Errorf("reads %.100v", &read)
	}
}

func decoded(t testing.TB, text string) any {
	t.Helper()
	v, err := value.DecodeJSON([]byte(text))
	if err != nil {
		t.Fatal(text, err)
	}
	return v
}

// sow creates a pattern, or with anchors false a resource, of random parts.
func sow(r *rand.Rand, depth int, anchors bool) any {
	if depth <= 0 {
		if anchors {
			return []any{"?*", "*", "s", "!s", int64(1), nil, true, "null", ">0", map[string]any{}}[r.IntN(10)]
		}
		return []any{"s", "t", int64(1), int64(0), nil, true, "", map[string]any{}, []any{}}[r.IntN(9)]
	}
	if r.IntN(4) == 0 {
		list := make([]any, r.IntN(3))
		for i := range list {
			list[i] = sow(r, depth-1-r.IntN(2), anchors)
		}
		return list
	}
	object := map[string]any{}
	for _, key := range []string{"a", "b", "metadata", "labels"} {
		if r.IntN(2) == 0 {
			continue
		}
		if anchors {
			key = fmt.Sprintf([]string{"%s", "%s", "%s", "(%s)", "=(%s)", "^(%s)", "X(%s)", "<(%s)", "%s*"}[r.IntN(9)], key)
		}
		object[key] = sow(r, depth-1-r.IntN(2), anchors)
	}
	return object
}

// For any pattern, the fields that it reads are sufficient for the verdict and its message.
func FuzzReads(f *testing.F) {
	for i := range 2000 {
		f.Add(uint64(i), uint64(i*7))
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		r := rand.New(rand.NewPCG(a, b))
		raw, resource := sow(r, 1+r.IntN(5), true), sow(r, 5, false)
		p, diags := Compile(raw, "pattern", nil)
		if diags.HasErrors() {
			return
		}
		want, wantErr := p.Match(nil, nil, resource)
		kept := onlyRead(t, raw, resource)
		if got, err := p.Match(nil, nil, kept); got != want || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("%s: %+v (%v) for %s, %+v (%v) for what it looks at: %s", value.JSON(raw), want, wantErr, value.JSON(resource), got, err, value.JSON(kept))
		}
	})
}
