package rights

import (
	"strings"
	"testing"
)

// A row stands for each of its resources, names and verbs, and a row without a reason is an error.
func TestDocumented(t *testing.T) {
	page := "## admission-controller\n\n| Where | API group | Resources | Names | Verbs | What for | Not with |\n|---|---|---|---|---|---|---|\n" +
		"| own | core | secrets | a, b | get, list | certificates | `x.enabled=false` |\n"
	got, err := Documented(page)
	if err != nil || len(got) != 4 {
		t.Fatal(got, err)
	}
	for _, want := range []Right{
		{"admission-controller", "own", "core", "secrets", "a", "get"}, {"admission-controller", "own", "core", "secrets", "b", "list"},
	} {
		if got[want] != (Line{Number: 5, Without: "x.enabled=false"}) {
			t.Errorf("%s: %v", want, got[want])
		}
	}
	if _, err := Documented(strings.Replace(page, "certificates", " ", 1)); err == nil || !strings.Contains(err.Error(), "docs/rbac.md:5") {
		t.Error(err)
	}
}
