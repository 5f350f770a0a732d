package value

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// doubled returns a list that contains the previous list twice, n times over: 2ⁿ items for a walk.
func doubled(n int) any {
	var v any = []any{"x", 1.5}
	for range n {
		v = []any{v, v}
	}
	return v
}

func TestBounded(t *testing.T) {
	small := map[string]any{"a": []any{"x", int64(1), nil}, "b": map[string]any{"c": true}}
	if w := TextLength(small, 1<<20); w < len(JSON(small)) || w > 8*len(JSON(small)) {
		t.Errorf("counted as %d bytes, its text has %d bytes", w, len(JSON(small)))
	}
	if w := TextLength(doubled(60), 1000); w <= 1000 || w > 1100 {
		t.Errorf("a value over the limit of 1000 has length %d", w)
	}
	if got, want := Print(small, 1000), fmt.Sprint(small); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := Print(doubled(60), 1000); len(got) > 1100 || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	if got := Print(strings.Repeat("é", 60), 5); got != "éé…" {
		t.Errorf("got %q: characters are not cut in two", got)
	}
	nodes := math.MaxInt
	if same, done := EqualWithin(small, map[string]any{"a": []any{"x", 1.0, nil}, "b": map[string]any{"c": true}}, &nodes); !same || !done {
		t.Error("equal values")
	}
	if same, done := EqualWithin(small, map[string]any{"a": []any{"x", 2.0, nil}, "b": map[string]any{"c": true}}, &nodes); same || !done {
		t.Error("different values")
	}
	nodes = 1000
	if _, done := EqualWithin(doubled(60), doubled(60), &nodes); done || nodes >= 0 {
		t.Errorf("finished with %d nodes left", nodes)
	}
}

func BenchmarkWeigh(b *testing.B) {
	object := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "nginx:1"}}}}
	b.ReportAllocs()
	for b.Loop() {
		TextLength(object, 1<<20)
	}
}
