package rights

import (
	"strings"
	"testing"
)

// A row lists the rights for each of its resources, names and verbs. A row without a reason is an error.
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
	if _, err := Documented(strings.Replace(page, "certificates", " ", 1)); err == nil || !strings.Contains(err.Error(), "docs/security/rbac.md:5") {
		t.Error(err)
	}
}

// A request is listed if the chart grants the right to it, or if a row of the other table contains it.
func TestListed(t *testing.T) {
	tables, err := Parse(`
## admission-controller

| Where | API group | Resources | Names | Verbs | What for | Not with |
|---|---|---|---|---|---|---|
| cluster | kyverno.io | policies/status | all | patch | status | – |
| own | core | secrets | all | get | keys | – |
| own | core | configmaps | one | update | a record | – |

## Requests by other rights

| Controllers | Verbs | API group | Resources | What for |
|---|---|---|---|---|
| all | get | – | ` + "`/api`, `/version`" + ` | discovery |
| all | create | authentication.k8s.io | selfsubjectreviews | who it is |
| background-controller | get, create | * | * | what policies generate |
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		request Request
		want    bool
	}{
		{Request{Controller: "admission-controller", Verb: "patch", Group: "kyverno.io", Resource: "policies/status", Namespace: "a", Name: "p"}, true},
		{Request{Controller: "admission-controller", Verb: "patch", Group: "kyverno.io", Resource: "policies", Namespace: "a", Name: "p"}, false},
		{Request{Controller: "cleanup-controller", Verb: "patch", Group: "kyverno.io", Resource: "policies/status", Namespace: "a", Name: "p"}, false},
		{Request{Controller: "admission-controller", Verb: "get", Resource: "secrets", Namespace: "kyverno", Name: "s"}, true},
		{Request{Controller: "admission-controller", Verb: "get", Resource: "secrets", Namespace: "a", Name: "s"}, false},
		{Request{Controller: "admission-controller", Verb: "get", Resource: "secrets"}, false},
		{Request{Controller: "admission-controller", Verb: "update", Resource: "configmaps", Namespace: "kyverno", Name: "one"}, true},
		{Request{Controller: "admission-controller", Verb: "update", Resource: "configmaps", Namespace: "kyverno", Name: "two"}, false},
		{Request{Controller: "admission-controller", Verb: "get", Path: "/api/v1"}, true},
		{Request{Controller: "admission-controller", Verb: "get", Path: "/version"}, true},
		{Request{Controller: "admission-controller", Verb: "get", Path: "/metrics"}, false},
		{Request{Controller: "admission-controller", Verb: "create", Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}, true},
		{Request{Controller: "background-controller", Verb: "create", Resource: "secrets", Namespace: "a", Name: "made"}, true},
		{Request{Controller: "background-controller", Verb: "delete", Resource: "secrets", Namespace: "a", Name: "made"}, false},
		{Request{Controller: "background-controller", Verb: "create", Resource: "secrets", Namespace: "kyverno", Name: "made"}, false},
		{Request{Controller: "background-controller", Verb: "create", Group: "kyverno.io", Resource: "policies", Namespace: "a", Name: "made"}, false},
	} {
		if got := tables.Listed(c.request, "kyverno"); got != c.want {
			t.Errorf("%s: %v", c.request, got)
		}
	}
}
