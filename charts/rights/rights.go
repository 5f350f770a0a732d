// Package rights reads the tables of docs/security/rbac.md: the rights of each controller, and the value that removes each right.
//
//	all, err := rights.Documented(page)
//	all[rights.Right{Controller: "admission-controller", Where: "own", Group: "core", Resource: "secrets", Verb: "get"}]
//
// The test of the chart compares the tables with the rendered chart. The end-to-end tests compare them with the requests of the controllers.
// It imports nothing of Ephor.
package rights

import (
	"cmp"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Right is one action that a controller may take.
type Right struct {
	Controller string // the component's name, such as admission-controller
	Where      string // "cluster", or "own" for the installation's namespace
	Group      string // "core" for the API group without a name
	Resource   string // with its subresource, such as policies/status
	Name       string // of the only object, or empty for all
	Verb       string
}

func (r Right) String() string {
	return fmt.Sprintf("%s | %s | %s | %s | %s | %s", r.Controller, r.Where, r.Group, r.Resource, cmp.Or(r.Name, "all"), r.Verb)
}

// Of lists the rights that the rules of a role grant.
func Of(controller, where string, rules []rbacv1.PolicyRule) []Right {
	var out []Right
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					for _, verb := range rule.Verbs {
						out = append(out, Right{controller, where, cmp.Or(group, "core"), resource, name, verb})
					}
				}
			}
		}
	}
	return out
}

// Line is the row of a table with the reason for a right.
type Line struct {
	Number int
	// Without is the value of the chart that removes the right, as for helm --set; empty if there is none.
	Without string
}

// cells of a row: where, group, resources, names, verbs, purpose, and the value without which the right is not granted.
const cells = 7

// Documented reads the tables. Each is below a heading with the component's name.
func Documented(page string) (map[Right]Line, error) {
	all := map[Right]Line{}
	controller := ""
	for i, line := range strings.Split(page, "\n") {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			controller = ""
			if strings.HasSuffix(title, "-controller") {
				controller = title
			}
			continue
		}
		if controller == "" || !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| Where") {
			continue
		}
		c := strings.Split(strings.Trim(line, "| "), " | ")
		if len(c) != cells || strings.TrimSpace(c[5]) == "" {
			return nil, fmt.Errorf("docs/security/rbac.md:%d: %d cells, want where, group, resources, names, verbs, what for and not with", i+1, len(c))
		}
		rule := rbacv1.PolicyRule{APIGroups: strings.Split(c[1], ", "), Resources: strings.Split(c[2], ", "), Verbs: strings.Split(c[4], ", ")}
		if c[3] != "all" {
			rule.ResourceNames = strings.Split(c[3], ", ")
		}
		without := ""
		if c[6] != "–" {
			without = strings.Trim(c[6], "`")
		}
		for _, r := range Of(controller, c[0], []rbacv1.PolicyRule{rule}) {
			all[r] = Line{Number: i + 1, Without: without}
		}
	}
	return all, nil
}
