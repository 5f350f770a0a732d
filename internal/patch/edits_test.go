package patch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/value"
)

// TestEdits applies random patches in a row, in place and with everything copied: the results are the same, and the
// inputs are not changed.
func TestEdits(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	paths := []string{"/a", "/a/b", "/a/b/0", "/a/b/1", "/a/b/-", "/l/0", "/l/1/x", "/l/-", "/l/0/y/z", "/m/k"}
	applied := 0
	for range 5_000 {
		doc, err := value.DecodeJSON([]byte(`{"a":{"b":[1,{"x":1}]},"l":[{"y":{}},{"x":[]}],"m":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		before := value.JSON(doc)
		given := map[string]any{"x": []any{"v"}, "z": map[string]any{}}
		shared := value.JSON(given)
		var edits Edits
		inPlace, copied := doc, doc
		for step := range 8 {
			path := func() string { return paths[r.IntN(len(paths))] }
			o := Operation{Op: []string{"add", "add", "replace", "remove", "copy", "move"}[r.IntN(6)], Path: path(), From: path()}
			if o.Value = given; r.IntN(2) == 0 {
				o.Value = strconv.Itoa(step)
			}
			made, err := edits.ApplyJSON(nil, inPlace, []Operation{o})
			want, wantErr := ApplyJSON(nil, copied, []Operation{o})
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("%+v on %s: %v, want %v", o, value.JSON(copied), err, wantErr)
			}
			if err != nil {
				break // a patch that fails ends the row, and its result is dropped
			}
			if value.JSON(made) != value.JSON(want) {
				t.Fatalf("%+v on %s:\n got %s\nwant %s", o, value.JSON(copied), value.JSON(made), value.JSON(want))
			}
			inPlace, copied = made, want
			applied++
		}
		if value.JSON(doc) != before || value.JSON(given) != shared {
			t.Fatalf("changed what was given: %s, %s", value.JSON(doc), value.JSON(given))
		}
	}
	if applied < 5_000 {
		t.Errorf("only %d patches applied", applied)
	}
}

// Patches in a row that copy or move long lists and maps use up the budget before they take seconds. Appending to a list copies it once.
func TestEditsOfLongLists(t *testing.T) {
	list, members := make([]any, 50_000), map[string]any{}
	for i := range list {
		list[i], members[strconv.Itoa(i)] = "x", "x"
	}
	for _, c := range []struct {
		op   func(i int) Operation
		most int // patches before the budget is exhausted; 0 for no error
	}{
		{func(int) Operation { return Operation{Op: "add", Path: "/l/-", Value: "y"} }, 0},
		{func(int) Operation { return Operation{Op: "add", Path: "/l/0", Value: "y"} }, 2000},
		{func(int) Operation { return Operation{Op: "remove", Path: "/l/0"} }, 2000},
		{func(int) Operation { return Operation{Op: "copy", From: "/l/1", Path: "/l/0"} }, 2000},
		// A scalar may be in several places; a list may not be changed in place after that, so that each copy copies what it is added to.
		{func(i int) Operation { return Operation{Op: "copy", From: "/l/1", Path: fmt.Sprintf("/m/%d", i)} }, 0},
		{func(int) Operation { return Operation{Op: "copy", From: "/l/1", Path: "/l/-"} }, 0},
		{func(int) Operation { return Operation{Op: "copy", From: "/c", Path: "/l/-"} }, 100},
		{func(i int) Operation { return Operation{Op: "copy", From: "/c", Path: fmt.Sprintf("/m/%d", i)} }, 100},
	} {
		meter := budget.New(t.Context(), budget.DefaultSteps, budget.DefaultBytes)
		var edits Edits
		var doc any = map[string]any{"l": list, "m": members, "c": []any{"x"}}
		var err error
		done := 0
		for ; done < 20_000 && err == nil; done++ {
			doc, err = edits.ApplyJSON(meter, doc, []Operation{c.op(done)})
		}
		if over := errors.Is(err, budget.ErrExhausted); over != (c.most > 0) || !over && err != nil || over && done > c.most {
			t.Errorf("%+v: %d patches, %v", c.op(0), done, err)
		}
	}
}
