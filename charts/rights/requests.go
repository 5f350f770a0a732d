package rights

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Request is a request of a controller to the API server.
type Request struct {
	Controller, Verb string
	Group, Resource  string // the resource with its subresource; both empty for a path
	Namespace, Name  string
	Path             string // of a request without a resource, such as /version
}

func (r Request) String() string {
	what := r.Path
	if r.Resource != "" {
		what = cmp.Or(r.Group, "core") + " " + r.Resource
	}
	where := "all namespaces"
	if r.Namespace != "" {
		where = "the namespace " + r.Namespace
	}
	return fmt.Sprintf("%s: %s %s %q in %s", r.Controller, r.Verb, what, r.Name, where)
}

// Tables contains the tables of docs/security/rbac.md.
type Tables struct {
	// Rights are the rights that the chart grants.
	Rights map[Right]Line
	// more are requests whose rights other roles grant.
	more []row
}

// row is a row of the table of requests with rights from other roles.
type row struct{ controllers, verbs, groups, resources []string }

// requestsTitle is the heading above that table.
const requestsTitle = "Requests by other rights"

// Parse reads the tables of the page.
func Parse(page string) (*Tables, error) {
	t := &Tables{}
	var err error
	if t.Rights, err = Documented(page); err != nil {
		return nil, err
	}
	_, below, ok := strings.Cut(page, "\n## "+requestsTitle+"\n")
	if !ok {
		return nil, fmt.Errorf("docs/security/rbac.md has no heading %q", requestsTitle)
	}
	below, _, _ = strings.Cut(below, "\n## ")
	for _, line := range strings.Split(below, "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| Controllers") {
			continue
		}
		c := strings.Split(strings.Trim(line, "| "), " | ")
		if len(c) != 5 || strings.TrimSpace(c[4]) == "" {
			return nil, fmt.Errorf("docs/security/rbac.md: %q: want controllers, verbs, API group, resources and what for", line)
		}
		list := func(i int) []string { return strings.Split(strings.ReplaceAll(c[i], "`", ""), ", ") }
		t.more = append(t.more, row{list(0), list(1), list(2), list(3)})
	}
	return t, nil
}

// Listed reports whether a table lists the request. own is the installation's namespace.
func (t *Tables) Listed(r Request, own string) bool {
	for _, where := range []string{"cluster", "own"} {
		if r.Resource == "" || where == "own" && r.Namespace != own {
			continue
		}
		for _, name := range []string{"", r.Name} {
			if _, ok := t.Rights[Right{r.Controller, where, cmp.Or(r.Group, "core"), r.Resource, name, r.Verb}]; ok {
				return true
			}
		}
	}
	return slices.ContainsFunc(t.more, func(w row) bool { return w.lists(r, own) })
}

// ours are the API groups whose objects decide what Ephor does, or hold what it says. `*` in a row does not stand for them, nor
// for anything in the own namespace.
var ours = []string{
	"kyverno.io", "policies.kyverno.io", "reports.kyverno.io", "wgpolicyk8s.io", "openreports.io", "admissionregistration.k8s.io", "apiextensions.k8s.io",
}

func (w row) lists(r Request, own string) bool {
	if !(w.controllers[0] == "all" || slices.Contains(w.controllers, r.Controller)) || !slices.Contains(w.verbs, r.Verb) {
		return false
	}
	switch {
	case r.Resource == "":
		return slices.ContainsFunc(w.resources, func(p string) bool {
			return strings.HasPrefix(p, "/") && (r.Path == p || strings.HasPrefix(r.Path, p+"/") || strings.HasPrefix(r.Path, p+"?"))
		})
	case w.resources[0] == "*":
		return r.Namespace != own && !slices.Contains(ours, r.Group)
	}
	return slices.Contains(w.groups, cmp.Or(r.Group, "core")) && slices.Contains(w.resources, r.Resource)
}
