package scan

import (
	"fmt"
	"testing"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
)

// A set knows which of its policies changed since a resource was evaluated; after too many changes, all policies evaluate it.
func TestSince(t *testing.T) {
	a, b, other := &policy.Program{Name: "a"}, &policy.Program{Name: "b"}, &policy.Program{Name: "a"}
	first := &set{programs: []*policy.Program{a, b}, revision: 1, changes: []change{{revision: 1}}}
	same := &set{programs: []*policy.Program{a, b}}
	if same.after(first, 2) || same.revision != 1 {
		t.Errorf("the same policies are another revision: %d", same.revision)
	}
	second := &set{programs: []*policy.Program{other, b}}
	if !second.after(same, 2) || second.revision != 2 {
		t.Errorf("another policy is no other revision: %d", second.revision)
	}
	third := &set{programs: []*policy.Program{other}}
	third.after(second, 5)
	for revision, want := range map[uint64]string{1: "map[{kyverno a}:true {kyverno b}:true]", 2: "map[{kyverno b}:true]", 5: "map[]", 4: "all"} {
		got := "all"
		if since := third.since(revision); since != nil {
			got = fmt.Sprint(since)
		}
		if got != want {
			t.Errorf("since %d %s, want %s", revision, got, want)
		}
	}
	shared := func(name string) *policy.Program {
		return &policy.Program{Name: name, Rules: []*policy.Rule{{Effect: policy.Effect{Shared: true}}}}
	}
	c, d := shared("c"), shared("d")
	together := &set{programs: []*policy.Program{c, d, b}}
	together.after(third, 6)
	again := &set{programs: []*policy.Program{shared("c"), d, b}}
	again.after(together, 7)
	if got := fmt.Sprint(again.since(6)); got != "map[{kyverno c}:true {kyverno d}:true]" {
		t.Errorf("results that depend on one another are not evaluated together: %s", got)
	}
	for i := range uint64(maxChanges) {
		third = third.changed(6+i, map[report.ID]bool{{Policy: "c"}: true})
	}
	if len(third.changes) != maxChanges || third.since(2) != nil || third.since(6+maxChanges-2) == nil {
		t.Errorf("%d changes are remembered", len(third.changes))
	}
}
