package patch

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"ephor.invalid/ephor/internal/value"
)

// TestOrderlyMerge compares the fast path for merging lists by key with the slow path, on random lists.
func TestOrderlyMerge(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := schemaFor("v1", "Pod").field("spec").field("containers")
	short := 0
	for range 20_000 {
		target, patch := randomList(r, false), randomList(r, true)
		if same(target, patch) {
			continue
		}
		got, ok, err := (&merger{}).orderlyMerge(target, patch, s)
		if !ok && err == nil {
			continue
		}
		short++
		l := &listMerge{m: &merger{}, s: s, target: cells(target), patch: cells(patch), haveTarget: true, havePatch: true}
		wantErr := l.run()
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%s and %s: %v, want %v", value.JSON(target), value.JSON(patch), err, wantErr)
		}
		want := []any{}
		for _, c := range l.target {
			want = append(want, c.v)
		}
		if err == nil && value.JSON(got) != value.JSON(want) {
			t.Fatalf("%s and %s:\n got %s\nwant %s", value.JSON(target), value.JSON(patch), value.JSON(got), value.JSON(want))
		}
	}
	if short < 2000 {
		t.Errorf("only %d lists went the short way", short)
	}
}

func randomList(r *rand.Rand, patch bool) []any {
	out := []any{}
	for i := range r.IntN(5) {
		e := map[string]any{"name": "n" + strconv.Itoa((i*3+r.IntN(3))%7)}
		switch r.IntN(8) {
		case 0:
			e["image"] = nil
		case 1:
			e["image"] = strconv.Itoa(r.IntN(3))
		case 2:
			e["env"] = []any{map[string]any{"name": "a", "value": strconv.Itoa(r.IntN(2))}, map[string]any{"name": strconv.Itoa(r.IntN(2))}}
		case 3:
			e["ports"] = []any{map[string]any{"containerPort": int64(r.IntN(3))}}
		case 4:
			e["securityContext"] = map[string]any{"privileged": r.IntN(2) == 0, "x": nil}
		case 5:
			if r.IntN(3) == 0 {
				e["name"] = int64(r.IntN(3))
			}
		case 6:
			if patch && r.IntN(4) == 0 {
				e["$patch"] = []any{"delete", "replace", "merge"}[r.IntN(3)]
			}
		}
		out = append(out, e)
	}
	return out
}
